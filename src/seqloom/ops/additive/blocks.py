"""Additive attention of a block of queries at a time; the backward pass recomputes the block."""

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

NUMBERS = 1 << 22
"""values of tanh in memory at a time: 16 MB in float32"""


def additive(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    causal: bool,
    query_time: Tensor | None,
    key_time: Tensor | None,
    window: int | None,
) -> Tensor:
    """See `additive` of the package."""
    T, N = q.shape[2], k.shape[2]
    now = torch.arange(T, device=q.device)[None] if query_time is None else query_time
    then = torch.arange(N, device=q.device)[None] if key_time is None else key_time
    count = max(1, NUMBERS // max(1, q.shape[0] * k.shape[1] * N * k.shape[3]))
    if count >= T:
        return _block(q, k, v, w, causal, now, then, window)
    parts = []
    whole = query_time is None and key_time is None and causal
    for a in range(0, T, count):
        last = min(a + count, T)
        first = 0 if window is None or not whole else max(0, a + 1 - window)
        keys = slice(first, last) if whole else slice(None)  # no query of the block sees other keys
        given = (q[:, :, a:last], k[:, :, keys], v[:, :, keys], w, causal, now[:, a:last], then[:, keys], window)
        parts.append(checkpoint(_block, *given, use_reentrant=False) if torch.is_grad_enabled() else _block(*given))
    return torch.cat(parts, 2)


def _block(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, causal: bool, now: Tensor, then: Tensor, window: int | None
) -> Tensor:
    apart = now[:, None, :, None] - then[:, None, None, :]
    seen = (then >= 0)[:, None, None, :].expand_as(apart)
    if causal:
        seen = seen & (apart >= 0)
    if window is not None:
        seen = seen & (apart.abs() < window)
    scores = (torch.tanh(q[:, :, :, None] + k[:, :, None]) @ w[:, None, :, None])[..., 0]  # (B, H, T, N)
    blind = ~seen.any(-1, keepdim=True)
    a = scores.masked_fill(~seen, -math.inf).masked_fill(blind, 0.0).softmax(-1)
    return torch.where(blind, 0.0, a @ v)
