"""The work of a training step on the device: losses, their gradient, clipping and the update.

    loss = Σ_p (n_p / n) Σ_name losses_p[name]          p: micro-batches with n_p of the batch's n targets

It is one function, which `loop.Updates` calls at every step and `captured.Captured` records as a graph. So it reads no
number from the device: whoever calls it says what is done with the losses before the update.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.divided import any_divided, whole
from seqloom.core.extras import Extras, add_statistics
from seqloom.core.graphs import without_reading
from seqloom.core.mixer import Mixer
from seqloom.core.objective import Batch, Carried, Objective, Pass
from seqloom.core.shapes import Ids
from seqloom.training.compilable import why_uncompiled
from seqloom.training.config import TrainConfig
from seqloom.training.group import Group
from seqloom.training.losses import Losses
from seqloom.training.optimizers import Optimizer
from seqloom.training.precision import matrix_products

if TYPE_CHECKING:
    from seqloom.training.compiled import CompiledParts

T = TypeVar("T")


class Reader(Protocol):
    """What stands for the model where an objective reads rows in another way, such as in pieces."""

    def loss_with_extras(self, ids: Ids, targets: Ids) -> tuple[Float[Tensor, ""], Extras]:
        """See `Model.loss_with_extras`."""


@final
class Learner(nn.Module):
    """A model and its objective as one module, which is called and optimized: the losses of some rows."""

    def __init__(self, model: Any, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self._reader: Reader | None = None

    def read_by(self, reader: "Reader") -> None:
        """From now on the objective reads rows through `reader`, which is no part of the weights."""
        self._reader = reader

    def call(self, function: Callable[[], T]) -> T:
        """Calls what uses the model outside of a training step; a divided model has its weights at hand inside."""
        return function()

    @override
    def forward(self, batch: Batch, carried: Carried) -> Pass:
        reader: Any = self._reader or self.model
        return self.objective.losses(reader, batch, carried)


def clipped_together(module: nn.Module) -> list[list[nn.Parameter]]:
    """Lists of parameters, each clipped by the norm of its gradients: most of them, and those that mixers set apart."""
    apart = {id(parameter) for part in module.modules() if isinstance(part, Mixer) for parameter in part.clipped_apart}
    most = [parameter for parameter in module.parameters() if id(parameter) not in apart]
    set_apart = [parameter for parameter in module.parameters() if id(parameter) in apart]
    return [parameters for parameters in (most, set_apart) if parameters]


@final
class Step:
    """The work of a step; `carried` is what a step passes on to the next."""

    def __init__(self, learner: Learner, optimizer: Optimizer, config: TrainConfig, group: Group | None = None) -> None:
        self.carried: Carried = {}
        self._learner = learner
        self._optimizer = optimizer
        self._config = config
        self._group = group or Group()
        self._device = next(learner.parameters()).device
        self._clipped = clipped_together(learner)
        self._compiled: CompiledParts | None = None
        if config.compile and not why_uncompiled(learner.model, learner.objective, config):
            from seqloom.training import compiled  # which imports torch's compiler

            self._compiled = compiled.CompiledParts(learner.model)

    def __call__(
        self, parts: Sequence[Batch], divisors: Sequence[float], admit: Callable[[Losses], T]
    ) -> tuple[T, dict[str, Tensor]]:
        """One step on micro-batches, whose losses are divided by `divisors`, at the rates that the optimizer has.

        `admit` gets the losses when the gradients of all processes are there, and may raise before the weights change.
        Returns its result, and the sums of the model's statistics.
        """
        with matrix_products(self._config):
            return self._work(parts, divisors, admit)

    def _work(
        self, parts: Sequence[Batch], divisors: Sequence[float], admit: Callable[[Losses], T]
    ) -> tuple[T, dict[str, Tensor]]:
        """`__call__`, in the precision of the settings."""
        losses = Losses()
        statistics: dict[str, Tensor] = {}

        def forward() -> Iterator[Tensor]:
            nonlocal statistics
            for part, divisor in zip(parts, divisors, strict=True):
                with without_reading():
                    result = self._pass(part)
                loss = self._total(result, divisor, losses)
                statistics = add_statistics(statistics, result.extras.statistics)
                yield loss / divisor if divisor != 1 else loss

        # processes that share rows read all micro-batches before the first backward, so that they wait less
        for loss in list(forward()) if self._config.sequence > 1 else forward():
            loss.backward()
        if not any_divided(self._learner.parameters()):  # else the backward has summed them
            self._group.sum_gradients(self._learner.parameters())
        losses.add_norm(self._clip())
        admitted = admit(losses)
        self._optimizer.update()
        self._optimizer.zero_grad()
        return admitted, statistics

    def _pass(self, part: Batch) -> Pass:
        """One micro-batch through model and objective."""
        with self._config.autocast(self._device):
            result = self._compiled.run(lambda: self._run(part)) if self._compiled is not None else self._run(part)
        self.carried = result.carried
        return result

    def _clip(self) -> Tensor:
        """Clips the gradients where they are to be clipped; the norm of all of them before that."""
        norms: list[Tensor] = []
        for parameters in self._clipped:
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            if not gradients:
                continue
            norm = torch.nn.utils.get_total_norm(gradients)
            if self._config.clip is not None:
                torch.nn.utils.clip_grads_with_norm_(parameters, self._config.clip, norm)
            norms.append(whole(norm))
        return torch.stack(norms).norm()

    def _run(self, part: Batch) -> Pass:
        """Model and objective on one micro-batch."""
        result: Pass = self._learner(part, self.carried)
        return result

    def _total(self, result: Pass, divisor: float, losses: Losses) -> Tensor:
        """The sum of the objective's and the weighted auxiliary losses of one micro-batch; each is also collected."""
        weights = self._learner.model.loss_weights
        terms = []
        for name, value in result.losses.items():
            losses.add(f"the training {name}", value, divisor)
            terms.append(value)
        for name, value in result.extras.losses.items():
            losses.add(f"the auxiliary loss {name}", value)
            terms.append(weights.get(name, 1.0) * value)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total
