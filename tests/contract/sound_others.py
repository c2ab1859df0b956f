"""More mixers that keep every promise, with other traits: growing, bidirectional, of limited length."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.cost import Cost, Span, linear
from seqloom.core.mixer import Traits
from seqloom.core.state import State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.ops.past.ring import write, write_
from tests.contract.cases import DIM
from tests.contract.sound import Average, Weighted, tanh


def grow(cache: Tensor, size: int) -> Tensor:
    """The cache (B, C, D) with at least `size` slots."""
    return pad(cache, (0, 0, 0, max(0, size - cache.shape[1])))


class Cached(Average):
    """Stores every token: a growing state."""

    traits = Traits(causal="always", streams=True, state="grows")

    @property
    def state_spec(self) -> StateSpec:
        return {"cache": StateEntry((0, self.dim), grows=True)}

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        totals = state["cache"].sum(1)[:, None] + x.cumsum(1)
        count = state["length"][:, None] + torch.arange(1, x.shape[1] + 1)
        room = grow(state["cache"], state["cache"].shape[1] + x.shape[1])
        after = {"cache": write(room, state["length"], x, lengths), "length": state["length"] + lengths}
        return self.read(totals, count), after

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        if not reuse:
            y, after = self.carry(x[:, None], state, torch.ones_like(state["length"]))
            return y[:, 0], after
        cache, length = state["cache"], state["length"]
        if int(length.max()) == cache.shape[1]:
            cache = grow(cache, max(1, 2 * cache.shape[1]))
        write_(cache, length, x)
        return self.read(cache.sum(1), length + 1), {"cache": cache, "length": length + 1}


class Ahead(Weighted):
    """Bidirectional: its verbs with a state raise an error."""

    traits = Traits(causal="never", streams=False, state="none")

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.check_input(x, keep, 3)
        keep = torch.ones_like(x[:, :, 0], dtype=torch.bool) if keep is None else keep
        tokens = torch.where(keep[:, :, None], x, 0.0)
        mean = tokens.sum(1) / keep.sum(1)[:, None].clamp(min=1)
        y = torch.tanh(self.w(mean))[:, None].expand_as(x)
        return torch.where(keep[:, :, None], y, 0.0)

    def refuse(self) -> ValueError:
        return ValueError("this mixer sees later tokens and cannot read on; use forward")

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        raise self.refuse()

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        raise self.refuse()

    def step(self, x: Tensor, state: State, *, reuse: bool = False) -> tuple[Tensor, State]:
        raise self.refuse()

    def price(self, span: Span) -> Cost:
        T = span.T
        if span.per == "token":
            raise ValueError("a mixer that sees later tokens has no price of one token; ask for the sequence")
        masks = Cost(other=2 * T * DIM)
        mean = Cost(add=max(T - 1, 0) * DIM, div=(T > 0) * DIM)
        return masks + mean + linear(int(T > 0), DIM, DIM) + tanh(int(T > 0) * DIM)


class Short(Average):
    """Reads at most 6 tokens, and raises an error for more."""

    traits = Traits(causal="always", streams=True, state="constant", longest=6)

    def stop(self, last: int) -> None:
        if last > 6:
            raise ValueError(f"this mixer takes at most 6 tokens, not {last}")

    def mix(self, x: Tensor) -> Tensor:
        self.stop(x.shape[1])
        return super().mix(x)

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        self.stop(int((state["length"] + lengths).max()))
        return super().carry(x, state, lengths)

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        self.stop(int(state["length"].max()) + 1)
        return super().advance(x, state, reuse)
