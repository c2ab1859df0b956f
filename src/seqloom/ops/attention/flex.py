"""Attention over a sparse pattern on a GPU by torch's `flex_attention`, which skips blocks without visible pairs.

Source: Dong et al., Flex Attention, arXiv:2412.05496, in torch. On a CPU, for tests, it runs uncompiled with a dense
mask and without a backward pass.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.core.recording import keep
from seqloom.ops import gpu
from seqloom.ops.attention.patterns import Pattern

NARROWEST = 16
"""the smallest width of a head"""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@constant
def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    reason = gpu.why() if torch.cuda.is_available() else "no GPU"
    return {"flex": reason} if reason else {}


def supports(q: Tensor, v: Tensor) -> bool:
    """Whether the kernels support the device and the widths of these queries and values."""
    widths_fit = min(q.shape[-1], v.shape[-1]) >= NARROWEST
    return q.device.type == "cuda" and q.dtype in DTYPES and widths_fit and not unavailable()


def attend(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, lengths: Tensor | None) -> Tensor:
    """(B, H, T, K), (B, H, T, K), (B, H, T, V), keys of each row (B,) or all → (B, H, T, V)."""
    T = q.shape[2]
    # the first `lengths` tokens of a row are the kept ones, so in a causal pattern they attend to no dropped one
    if lengths is None or pattern.causal:
        mask = keep(_mask(pattern.of(T), T, q.device))
    else:
        mask = _block_mask(_within(pattern, lengths), len(q), T, q.device)
    y: Tensor = _compile_kernels(q.device.type)(q, k, v, block_mask=mask)
    return y


@lru_cache(maxsize=2)
def _compile_kernels(device: str) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    run: Callable[..., Any] = flex_attention
    return torch.compile(run) if device == "cuda" else run


@lru_cache(maxsize=64)
def _mask(pattern: Pattern, T: int, device: torch.device) -> Any:
    """The block mask of a pattern over T tokens, computed once and cached."""
    return _block_mask(lambda b, h, i, j: pattern(i, j), None, T, device)


def _within(pattern: Pattern, lengths: Tensor) -> Callable[..., Tensor]:
    """The pattern over the first `lengths` (B,) keys of each row."""
    return lambda b, h, i, j: pattern.of(lengths[b])(i, j) & (j < lengths[b])


def _block_mask(visible: Callable[..., Tensor], B: int | None, T: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    with torch.no_grad():
        return create_block_mask(visible, B, None, T, T, device=device)
