"""Normalizes keys and queries to length 1, as the delta rule needs: longer keys would erase more than the state holds.

    unit(x) = x / √(Σ x² + 1e-6)        direction(x) = x / max(|x|, 1e-12)        over the channels of a head

Source: `unit` is flash-linear-attention's `l2norm`; `direction` torch's `normalize`, as RWKV-7 has it. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost, Step


def unit(x: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows K"]:
    """x divided by its length."""
    return (x * torch.rsqrt(_squared_length(x) + 1e-6)).to(x.dtype)


def direction(x: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows K"]:
    """x divided by its length; 0 for a vector of zeros."""
    return (x * torch.rsqrt(_squared_length(x).clamp(min=1e-24))).to(x.dtype)


def _squared_length(x: Tensor) -> Tensor:
    """Σ x² (…, 1) in float32 or better, where 1e-24 is not rounded to 0."""
    return x.to(torch.promote_types(x.dtype, torch.float32)).square().sum(-1, keepdim=True)


def unit_price(rows: int, K: int) -> Cost:
    """The operations of `unit` on `rows` vectors of width K."""
    path: tuple[Step, ...] = ("multiplication", "cumulation", "addition", "other", "division", "multiplication")
    return Cost(mul=2 * rows * K, add=rows * K, div=rows, other=rows, path=path)


def direction_price(rows: int, K: int) -> Cost:
    """The operations of `direction` on `rows` vectors of width K."""
    path: tuple[Step, ...] = ("multiplication", "cumulation", "other", "other", "division", "multiplication")
    return Cost(mul=2 * rows * K, add=rows * (K - 1), div=rows, other=2 * rows, path=path)
