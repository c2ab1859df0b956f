"""A model and its objective as one module: what the loop calls, compiles and optimizes."""

from typing import Any, final

from torch import nn
from typing_extensions import override

from seqloom.core.objective import Batch, Carried, Objective, Pass


@final
class Learner(nn.Module):
    """A model under an objective; `forward` computes the losses of some rows."""

    def __init__(self, model: Any, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    @override
    def forward(self, batch: Batch, carried: Carried) -> Pass:
        return self.objective.losses(self.model, batch, carried)
