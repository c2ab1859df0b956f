"""Pools a sequence over stretches of equal length: their means, their maxima, or sums with taps.

    mean   y_j = 1/n_j Σ_l x_{jW+l}        max   y_j = max_l x_{jW+l}        conv   y_j = Σ_l taps_l ∘ x_{jW+l}

l = 0 … n_j - 1 runs over the tokens of stretch j, which has W tokens, or fewer if it is the last. A row with fewer
tokens has fewer stretches; the other stretches are `empty`, and their values are arbitrary.
"""

from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.past.pack import within

How: TypeAlias = Literal["mean", "max", "conv"]


def pool_stretches(
    x: Stream, width: int, how: How, taps: Float[Tensor, "W D"] | None = None, lengths: Lengths | None = None
) -> Float[Tensor, "B N D"]:
    """The pooled stretches (B, N, D) of `width` tokens of x (B, T, D), N = ⌈T / width⌉.

    A row of x has `lengths` tokens, then zeros.
    """
    T = x.shape[1]
    full_tokens = T // width * width
    full, shorter = x[:, :full_tokens].unflatten(1, (-1, width)), x[:, None, full_tokens:]  # (B, stretches, tokens, D)
    parts = [part for part in (full, shorter) if part.shape[1] * part.shape[2]]
    if how == "conv":
        assert taps is not None
        return torch.cat([(part * taps[: part.shape[2]]).sum(2) for part in parts], 1)
    if how == "mean":
        starts = torch.arange(0, T, width, device=x.device)
        counts = (T - starts).clamp(max=width)  # tokens of each stretch
        if lengths is not None:
            counts = (lengths[:, None] - starts).clamp(min=1).minimum(counts)
        return torch.cat([part.sum(2) for part in parts], 1) / counts[..., None].to(x.dtype)
    if lengths is not None:
        x = torch.where(within(lengths, T)[:, :, None], x, torch.finfo(x.dtype).min)
        return pool_stretches(x, width, how)
    return torch.cat([part.amax(2) for part in parts], 1)


def empty(lengths: Lengths, width: int, count: int) -> Bool[Tensor, "B N"]:
    """Which of `count` stretches have no token of a row."""
    return torch.arange(count, device=lengths.device) * width >= lengths[:, None]


def price(T: int, dim: int, width: int, how: How) -> Cost:
    """The price of one row of T tokens."""
    n = -(-T // width) * dim
    if how == "max":
        return Cost(other=T * dim - n, path=("other",))
    if how == "mean":
        return Cost(add=T * dim - n, div=n, path=("cumulation", "division"))
    return Cost(mul=T * dim, add=T * dim - n, path=("multiplication", "cumulation"))
