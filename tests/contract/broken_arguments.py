"""Mixers that accept wrong arguments, or fail for valid ones."""

import torch
from torch import Tensor

from seqloom.core.state import State
from seqloom.core.state_spec import StateEntry, StateSpec
from tests.contract.faults import caught_by
from tests.contract.sound import Average


@caught_by(check_arguments=r"forward\(x\) with another dtype: Failed: DID NOT RAISE")
class ConvertsAnyInput(Average):
    """Casts an input of another dtype without an error."""

    def check_input(self, x: Tensor, keep: Tensor | None, ndim: int) -> Tensor:
        if isinstance(x, Tensor) and x.is_floating_point() and not x.is_meta:
            x = x.to(self.dtype)
        return super().check_input(x, keep, ndim)


@caught_by(check_arguments=r"start\(batch\) with a bool: Failed: DID NOT RAISE")
class StartsTrue(Average):
    """Accepts True as the number of rows 1."""

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        return super().start(int(batch) if batch is True else batch, capacity=capacity)


@caught_by(check_empty="index")
class NeedsAToken(Average):
    """Indexes the first token of an empty sequence."""

    def mix(self, x: Tensor) -> Tensor:
        return super().mix(x) + 0 * x[:, :1].select(1, 0)[:, None]


@caught_by(check_dtypes="state entry 'total' is .* float64")
class RemembersInDouble(Average):
    """Returns a state other than the one that it declares."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        return y, {**after, "total": after["total"].double()}


@caught_by(check_given_state="an entry more: Failed: DID NOT RAISE")
class TakesAnyState(Average):
    """Does not check given states."""

    def check_state(self, state: State, batch: int | None = None) -> None:
        pass


@caught_by(check_other_context="of another context: Failed: DID NOT RAISE")
class TakesAnyContext(TakesAnyState):
    """The same, for a state whose size follows from the context."""

    def __init__(self, context: int | None = None) -> None:
        super().__init__()
        self.context = context or 1

    @property
    def state_spec(self) -> StateSpec:
        return {**super().state_spec, "spare": StateEntry((self.context,))}

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        return y, {**after, "spare": torch.zeros_like(state["spare"])}
