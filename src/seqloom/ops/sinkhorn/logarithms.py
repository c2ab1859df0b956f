"""Normalizes all rows, then all columns at once, in logarithms, so that no sum overflows or underflows."""

import torch
from torch import Tensor


def balanced(z: Tensor, keep: Tensor, steps: int, columns: bool) -> Tensor:
    """See `balanced` of the package."""
    wide = z.to(torch.promote_types(z.dtype, torch.float32))
    lowest = torch.finfo(wide.dtype).min / 2  # finite, so that the gradient of a row without entries is not NaN
    wide = wide.masked_fill(~keep, lowest)
    if not columns:
        return torch.where(keep, wide.softmax(-1), 0.0).to(z.dtype)
    for _ in range(steps):
        for axis in (-1, -2):
            wide = torch.where(keep, wide - wide.logsumexp(axis, keepdim=True), lowest)
    return torch.where(keep, wide, -torch.inf).exp().to(z.dtype)
