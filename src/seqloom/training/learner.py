"""A model and its objective as one module: what the loop calls, compiles and optimizes."""

from typing import Any, final

from torch import nn

from seqloom.core.objective import Batch, Carried, Objective, Pass


@final
class Learner(nn.Module):
    """A model under an objective; `forward` computes the losses of some rows."""

    def __init__(self, model: Any, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch, carried: Carried) -> Pass:
        """See `Objective.losses`."""
        return self.objective.losses(self.model, batch, carried)
