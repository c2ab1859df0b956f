"""Small mixers that keep every promise: the controls of the checks, and what the broken ones are made from.

y_t = tanh(W · mean of the tokens up to t)             Average, Cached
y_t = tanh(W · mean of all tokens)                     Ahead: sees later tokens, so it cannot read on
"""

import torch
from torch import Tensor, nn

from seqloom.core.cost import Cost, Per, linear
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.state import State, check
from seqloom.ops.pack import pack, unpack
from tests.contract.cases import DIM, drawn


class Weighted(Mixer):
    """One matrix, and arguments checked. Not the package's own: a fault there must not hide in the controls."""

    def __init__(self, context: int | None = None) -> None:
        super().__init__()
        self.dim = DIM
        self.w = nn.Linear(DIM, DIM, bias=False)

    def fits(self, x: Tensor, keep: Tensor | None, ndim: int) -> None:
        if x.ndim != ndim or x.shape[-1] != DIM:
            raise ValueError(f"this mixer reads {ndim} axes, the last of {DIM}, not {tuple(x.shape)}")
        if keep is not None and (keep.shape != x.shape[:2] or keep.dtype != torch.bool):
            raise ValueError(f"keep must be bool {tuple(x.shape[:2])}, not {keep.dtype} {tuple(keep.shape)}")


class Average(Weighted):
    """Remembers the sum: constant state."""

    traits = Traits(causal="always", streams=True, state="constant")

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        self.fits(x, keep, 3)
        if keep is None:
            return self.mix(x)
        rows, places = pack(x, keep)
        return unpack(self.mix(rows), places)

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        self.fits(x, keep, 3)
        check(state, len(x))
        if x.shape[1] == 0:
            return x.clone(), {name: tensor.clone() for name, tensor in state.items()}
        if keep is None:
            return self.carry(x, state, torch.full_like(state["seen"], x.shape[1]))
        rows, places = pack(x, keep)
        y, state = self.carry(rows, state, places.lengths)
        return unpack(y, places), state

    def step(self, x: Tensor, state: State, *, reuse: bool = False) -> tuple[Tensor, State]:
        self.fits(x, None, 2)
        check(state, len(x))
        if reuse and any(tensor.requires_grad for tensor in state.values()):
            raise ValueError("a state with gradients cannot be reused")
        return self.advance(x, state, reuse)

    def read(self, total: Tensor, count: Tensor) -> Tensor:
        return torch.tanh(self.w(total / count[..., None]))

    def mix(self, x: Tensor) -> Tensor:
        return self.read(x.cumsum(1), torch.arange(1, x.shape[1] + 1))

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        return {
            "total": torch.zeros(batch, self.dim, dtype=self.dtype),
            "seen": torch.zeros(batch, dtype=torch.long),
        }

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        totals = state["total"][:, None] + x.cumsum(1)  # padding is 0 and adds nothing
        count = state["seen"][:, None] + torch.arange(1, x.shape[1] + 1)
        return self.read(totals, count), {"total": totals[:, -1].clone(), "seen": state["seen"] + lengths}

    def advance(self, x: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
        if reuse:
            total, seen = state["total"].add_(x), state["seen"].add_(1)
        else:
            total, seen = state["total"] + x, state["seen"] + 1
        return self.read(total, seen), {"total": total, "seen": seen}

    def cost(self, T: int, per: Per = "sequence") -> Cost:
        tokens = T if per == "sequence" else 1
        sums = tokens - (per == "sequence" or T == 1)
        counts = Cost(add=sums * DIM, div=tokens * DIM, other=tokens * DIM, state=DIM)
        return counts + linear(tokens, DIM, DIM)


def made(kind: type[Mixer]):
    """A class of mixers as the checks want it: make(context, dtype)."""

    def make(context: int | None = 5, dtype: torch.dtype = torch.float64) -> Mixer:
        return drawn(kind(context)).to(dtype)

    return make
