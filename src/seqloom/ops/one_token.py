"""What the calls of C for one token of a whole mixer share: when they are made, and how they get their arguments.

A call replaces dozens of operations of torch, whose overhead exceeds their own time at the widths of small models.
"""

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.ops import native
from seqloom.ops.backends import forced

PRODUCTS = 1 << 21
"""the most products (rows times size of the largest matrix) for which C is faster: it reads matrices once per row"""


def able(
    source: Path,
    ops: tuple[str, ...],
    x: Token,
    entries: tuple[Tensor, ...],
    weights: tuple[Tensor, ...],
    products: int = PRODUCTS,
) -> bool:
    """Whether the C code of `source` can compute the token x (B, D) and write into the `entries` of a state.

    It supports one row, or several whose product with the size of the largest matrix is at most `products`; on a CPU,
    without gradients, with entries without gaps, and no other forced backend of `ops` or of the projections.
    """
    if not native.callable_directly(x, *entries, *weights):
        return False
    for entry in entries:
        if not entry.is_contiguous():
            return False
    for op in ops:
        if forced(op) not in (None, "native"):
            return False
    rows = x.shape[0]
    few = rows == 1 or rows * max(weight.numel() for weight in weights) <= products
    supported = x.numel() > 0 and x.dtype in native.WORD and x.is_cpu
    return few and supported and forced("projection") is None and native.library(source) is not None


def complete(*tensors: Tensor | None) -> tuple[Tensor, ...] | None:
    """The tensors, or None where one of them is missing."""
    present = tuple([tensor for tensor in tensors if tensor is not None])
    return present if len(present) == len(tensors) else None


@cache
def numbers(dtype: torch.dtype, *values: float) -> Tensor:
    """Numbers as a tensor (n,), the form in which the C code reads those of its dtype."""
    return torch.tensor(values, dtype=dtype)
