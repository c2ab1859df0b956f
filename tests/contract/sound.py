"""Small mixers that keep every promise: the controls of the checks, and the bases of the broken ones.

y_t = tanh(W · mean of the tokens up to t)             Average, Cached
y_t = tanh(W · mean of all tokens)                     Ahead: reads later tokens, so it has no state
"""

import torch
from torch import Tensor, nn

from seqloom.core.cost import Cost, Span
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.state import State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.ops.past.pack import pack, unpack
from tests.contract.cases import DIM, drawn


class Weighted(Mixer):
    """One matrix."""

    def __init__(self, context: int | None = None) -> None:
        super().__init__()
        self.dim = DIM
        self.w = nn.Linear(DIM, DIM, bias=False)


class Average(Weighted):
    """Stores the sum: a constant state."""

    traits = Traits(causal="always", streams=True, state="constant")

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        x = self.check_input(x, keep, 3)
        if keep is None:
            return self.mix(x)
        rows, positions = pack(x, keep)
        return unpack(self.mix(rows), positions)

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        if 0 in x.shape:
            return x.clone(), {name: tensor.clone() for name, tensor in state.items()}
        if keep is None:
            return self.carry(x, state, torch.full_like(state["length"], x.shape[1]))
        rows, positions = pack(x, keep)
        y, state = self.carry(rows, state, positions.lengths)
        return unpack(y, positions), state

    def step(self, x: Tensor, state: State, *, reuse: bool = False) -> tuple[Tensor, State]:
        x = self.check_step(x, state, reuse)
        if len(x) == 0:
            return x.clone(), {name: tensor.clone() for name, tensor in state.items()}
        return self.advance(x, state, reuse)

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return torch.tanh(self.w(total / count[..., None]))

    def mix(self, x: Tensor) -> Tensor:
        return self.read(x.cumsum(1), torch.arange(1, x.shape[1] + 1))

    @property
    def state_spec(self) -> StateSpec:
        return {"total": StateEntry((self.dim,))}

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        totals = state["total"][:, None] + x.cumsum(1)  # padding is 0 and adds nothing
        count = state["length"][:, None] + torch.arange(1, x.shape[1] + 1)
        return self.read(totals, count), {"total": totals[:, -1].clone(), "length": state["length"] + lengths}

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        if reuse:
            total, length = state["total"].add_(x), state["length"].add_(1)
        else:
            total, length = state["total"] + x, state["length"] + 1
        return self.read(total, length), {"total": total, "length": length}

    def price_terms(self, span: Span) -> list[Cost | nn.Module]:
        sums_and_means = Cost(add=(span.rows - span.first) * DIM, div=span.rows * DIM)
        return [sums_and_means, self.w, tanh(span.rows * DIM)]


def tanh(numbers: int) -> Cost:
    """(e^2x - 1) / (e^2x + 1)"""
    return Cost(mul=numbers, add=2 * numbers, div=numbers, exp=numbers)


def made(kind: type[Mixer]):
    """A class of mixers in the form of the checks: make(context, dtype)."""

    def make(context: int | None = 5, dtype: torch.dtype = torch.float64) -> Mixer:
        return drawn(kind(context)).to(dtype)

    return make
