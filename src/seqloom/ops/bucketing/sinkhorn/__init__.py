"""Sinkhorn balancing: the rows and columns of a matrix of scores are normalized alternately, for a soft permutation.

    S⁰ = e^z,   S ← S / its sums over rows j,   S ← S / its sums over columns i,   `steps` times

over the entries in `keep`; all other entries are 0. If all entries are kept, the limit is doubly stochastic, a mixture
of permutations. Without `columns` each row is normalized once, as in a softmax.

If only entries below the diagonal are kept, the limit does not depend on z: the first row has one entry, which becomes
1, so the other entries of its column become 0, and so on; row i keeps only its last entry (see the test).

Source: Tay et al., Sparse Sinkhorn Attention, arXiv:2002.11296, section 3.1, where the masked form is its causal
balancing; in logarithms, as there. Nothing differs.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.ops.bucketing.sinkhorn import reference
from seqloom.ops.bucketing.sinkhorn.reference import price
from seqloom.ops.op import Backend, Draw, Example, Op

__all__ = ["OP", "balance_matrix", "price"]


def balance_matrix(
    z: Float[Tensor, "B H N M"], keep: Bool[Tensor, "#B 1 N M"], steps: int, columns: bool = True
) -> Float[Tensor, "B H N M"]:
    """The balanced matrices; rows and columns without kept entries are 0."""
    weights: Tensor = OP[OP.choose(z)](z, keep, steps, columns)
    return weights


def choose_backend(z: Tensor) -> str:
    """The name of the only fast backend."""
    return "logarithms"


def logarithms(z: Tensor, keep: Tensor, steps: int, columns: bool) -> Tensor:
    """The backend `logarithms`: all rows, then all columns at once, so that no sum overflows or underflows."""
    wide = z.to(torch.promote_types(z.dtype, torch.float32))
    lowest = torch.finfo(wide.dtype).min / 2  # finite, so that the gradient of a row without entries is not NaN
    wide = wide.masked_fill(~keep, lowest)
    if not columns:
        return torch.where(keep, wide.softmax(-1), 0.0).to(z.dtype)
    for _ in range(steps):
        for axis in (-1, -2):
            wide = torch.where(keep, wide - wide.logsumexp(axis, keepdim=True), lowest)
    return torch.where(keep, wide, -torch.inf).exp().to(z.dtype)


def _example(causal: bool, columns: bool) -> Example:
    def example(draw: Draw, B: int, T: int) -> Tensor:
        blocks = min(T, 64)
        z = draw(B, 4, blocks, blocks)
        keep = torch.ones(1, 1, blocks, blocks, dtype=torch.bool).tril(0 if causal else blocks)
        return balance_matrix(z, keep, 3, columns)

    return example


OP = Op(
    "sinkhorn",
    {"reference": Backend(reference.balance_matrix), "logarithms": Backend(logarithms, plain=True)},
    rule=choose_backend,
    examples=(_example(False, True), _example(True, True), _example(True, False)),
    price=reference.price,
)
