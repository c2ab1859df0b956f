"""Sinkhorn balancing: a matrix of scores whose rows and columns are normalized in turns, so that it sorts softly.

    S⁰ = e^z,   S ← S / its sums over rows j,   S ← S / its sums over columns i,   `steps` times

over the entries that `keep` says are there; the others are 0. Where all entries are kept the limit is doubly
stochastic: a mixture of permutations. Without `columns` each row is normalized once: a softmax.

Entries below the diagonal alone have a limit without choice. The first row has one entry, which must be 1, so that
nothing is left of its column for later rows, and so on: row i keeps its last entry alone (held by a test).

Source: Tay et al., Sparse Sinkhorn Attention, arXiv:2002.11296, section 3.1, where the masked form is its causal
balancing; in logarithms, as there. Nothing differs.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.ops.op import Backend, Draw, Example, Op
from seqloom.ops.sinkhorn import logarithms, reference
from seqloom.ops.sinkhorn.price import price

__all__ = ["OP", "balanced", "price"]


def balanced(
    z: Float[Tensor, "B H N M"], keep: Bool[Tensor, "#B 1 N M"], steps: int, columns: bool = True
) -> Float[Tensor, "B H N M"]:
    """The balanced matrices; a row or a column of which no entry is kept is 0."""
    weights: Tensor = OP[OP.choose(z)](z, keep, steps, columns)
    return weights


def by_size(z: Tensor) -> str:
    """The only fast backend."""
    return "logarithms"


def _example(causal: bool, columns: bool) -> Example:
    def example(draw: Draw, B: int, T: int) -> Tensor:
        blocks = min(T, 64)
        z = draw(B, 4, blocks, blocks)
        keep = torch.ones(1, 1, blocks, blocks, dtype=torch.bool).tril(0 if causal else blocks)
        return balanced(z, keep, 3, columns)

    return example


OP = Op(
    "sinkhorn",
    {"reference": Backend(reference.balanced), "logarithms": Backend(logarithms.balanced)},
    rule=by_size,
    examples=(_example(False, True), _example(True, True), _example(True, False)),
    price=price,
)
