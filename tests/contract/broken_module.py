"""Mixers that are saved, compiled, exported or guarded wrongly."""

import torch
from torch import Tensor

from seqloom.core.state import State
from tests.contract.cases import DIM
from tests.contract.faults import caught_by
from tests.contract.sound import Average
from tests.contract.sound_others import Ahead


@caught_by(check_nothing_is_changed="was written into")
class Remembers(Average):
    """A buffer changes with the inputs."""

    def __init__(self, context: int | None = None) -> None:
        super().__init__(context)
        self.register_buffer("largest", torch.zeros(()))

    def mix(self, x: Tensor) -> Tensor:
        self.largest.copy_(x.detach().abs().max())
        return super().mix(x)


@caught_by(check_nothing_is_changed="attribute of the module")
class CountsItsCalls(Average):
    """An attribute counts the steps."""

    calls = 0

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        self.calls += 1
        return super().advance(x, state, reuse)


@caught_by(check_store="another function")
class HidesAWeight(Average):
    """A number that changes the output is in no state_dict."""

    made = 0

    def __init__(self, context: int | None = None) -> None:
        super().__init__(context)
        HidesAWeight.made += 1
        self.scale = float(HidesAWeight.made)

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return super().read(total, count) * self.scale


@caught_by(check_store="pickle")
class CannotBePickled(Average):
    """Holds a lambda, which cannot be pickled."""

    def __init__(self, context: int | None = None) -> None:
        super().__init__(context)
        self.activation = lambda y: y


@caught_by(check_around="not all are listed")
class ListsHalf(Ahead):
    """Its parameter groups lack a parameter."""

    def param_groups(self):
        return []


@caught_by(check_compiles="data-dependent", check_exports="data-dependent")
class AsksItsNumbers(Average):
    """Branches on a value of the input, which a graph cannot."""

    def mix(self, x: Tensor) -> Tensor:
        return super().mix(x) if float(x.sum()) > 0 else super().mix(x) * 1.0


@caught_by(check_compiles="off by")
class OtherWhenCompiled(Average):
    """Computes something else inside a compiler."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        return (y * (1 + 1e-6) if torch.compiler.is_compiling() else y), after


@caught_by(check_exports="off by")
class BakesItsInput(Average):
    """Computes something else when it is exported."""

    def mix(self, x: Tensor) -> Tensor:
        y = super().mix(x)
        return y + 1e-6 * x[:, :1] if not torch.compiler.is_exporting() else y


@caught_by(check_refusals="DID NOT RAISE", check_keep_is_bool="DID NOT RAISE")
class TakesAnyKeep(Average):
    """Accepts a mask of integers as one of bools."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x, keep if keep is None or keep.shape != x.shape[:2] else keep.bool())


@caught_by(check_refusals="DID NOT RAISE")
class TakesAnyDim(Average):
    """Cuts off surplus channels without an error."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x[..., :DIM], keep)


@caught_by(check_refusals="DID NOT RAISE")
class ReusesWithGradients(Average):
    """Writes into a state that gradients flow through."""

    def step(self, x: Tensor, state: State, *, reuse: bool = False) -> tuple[Tensor, State]:
        return super().step(x, {name: tensor.detach() for name, tensor in state.items()}, reuse=reuse)
