"""Mixers that break a rule of the state."""

import torch
from torch import Tensor

from seqloom.core.mixer import Traits
from seqloom.core.state import State
from tests.contract.cases import DIM
from tests.contract.faults import caught_by
from tests.contract.sound import Average
from tests.contract.sound_others import Cached, grow


@caught_by(check_state_form="int64")
class CountsInShort(Average):
    """`length` is int32."""

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        state = super().start(batch)
        return {**state, "length": state["length"].int()}


@caught_by(check_state_form="batch first")
class BatchSecond(Average):
    """A tensor of the state has its batch last."""

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        return {**super().start(batch), "total": torch.zeros(DIM, batch, dtype=self.dtype).mT.contiguous().mT}

    def check_state(self, state: State, batch: int | None = None) -> None:
        pass

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, {**state, "total": state["total"].mT}, lengths)
        return y, {**after, "total": after["total"].mT}

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        y, after = super().advance(x, {**state, "total": state["total"].mT}, reuse)
        return y, {**after, "total": after["total"].mT}


@caught_by(check_state_form="DID NOT RAISE")
class BroadcastsRows(Average):
    """A state of one row is broadcast to all rows without an error."""

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        if len(state["length"]) != len(x):
            state = {name: tensor[:1].expand(len(x), *tensor.shape[1:]) for name, tensor in state.items()}
        return super().extend(x, state, keep)


@caught_by(check_state_is_kept="was written into")
class AlwaysReuses(Average):
    """A step without reuse writes into the given state."""

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        return super().advance(x, state, reuse=True)


@caught_by(check_state_is_kept="was written into")
class PiecesReuse(Average):
    """`extend` adds into the given sum."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        state["total"].add_(x.sum(1))
        return y, after


@caught_by(check_reuse_writes_only_into_what_was_given_up="dropped tokens: the old state")
class SharesWithTheOld(Average):
    """The new state holds the tensors of the old one if no token was kept."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        return y, (after if bool(lengths.any()) else dict(state))


@caught_by(check_reuse_writes_only_into_what_was_given_up="after a piece: the input")
class HoldsTheInput(Average):
    """The state after one token is a view of the input."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        first = x.shape[1] == 1 and not bool(state["length"].any()) and bool(lengths.all())
        return y, ({**after, "total": x[:, 0]} if first else after)


@caught_by(check_reuse_writes_only_into_what_was_given_up="empty piece: the old state")
class SharesAfterNothing(Average):
    """An empty piece returns the given state itself, which a step with reuse then overwrites."""

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        return super().extend(x, state, keep) if x.shape[1] else (x.clone(), dict(state))


@caught_by(check_state_size="lay in 33 places")
class CopiesEachToken(Cached):
    """With reuse the cache grows by one position at each token."""

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        return super().advance(x, state, reuse=False)


@caught_by(check_state_size="changes its size")
class GrowsInSecret(Cached):
    """Its trait is a constant state, but it stores every token."""

    traits = Traits(causal="always", streams=True, state="constant")


@caught_by(check_state_size="keeps more in memory")
class KeepsThePiece(Average):
    """The state after a piece is a view of the sums after all its tokens."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, state, lengths)
        sums = after["total"][:, None].expand(-1, x.shape[1] + 1, -1).contiguous()
        return y, {**after, "total": sums[:, -1]}


@caught_by(check_fork_and_trim="off by")
class TrimsTooMuch(Cached):
    """The trimmed state lacks the last token."""

    def trim(self, state: State) -> State:
        return {**state, "cache": state["cache"][:, : int(state["length"].max()) - 1].contiguous()}


@caught_by(check_fork_and_trim="larger than", check_cost="a row holds")
class TrimsNothing(Cached):
    """`trim` does not remove unused capacity."""

    def trim(self, state: State) -> State:
        room = grow(state["cache"], 50)
        return {**state, "cache": room}


@caught_by(check_crop="off by")
class CropsNothing(Cached):
    """A cropped state still holds every token."""

    def crop(self, state: State, tokens: int) -> State:
        return {**state, "length": state["length"].clamp(max=tokens)}
