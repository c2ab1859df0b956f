"""Computes a tile of queries at a time, over the keys in its window; the backward pass recomputes the tile."""

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seqloom.ops.native import watched

TILE = 128
"""queries of a tile"""


def spanned(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spans: Tensor,
    ramp: int,
    window: int,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """See `spanned` of the package."""
    T, N = q.shape[2], k.shape[2]
    now = torch.arange(T, device=q.device)[None] if query_time is None else query_time
    then = torch.arange(N, device=q.device)[None] if key_time is None else key_time
    spans = spans.expand(-1, -1, T)
    whole = query_time is None and key_time is None
    if not whole or T <= TILE or watched(q):
        return _tile(q, k, v, spans, ramp, window, now, then)
    parts = []
    for a in range(0, T, TILE):
        queries, keys = slice(a, a + TILE), slice(max(0, a + 1 - window), min(a + TILE, T))
        given = (
            *(q[:, :, queries], k[:, :, keys], v[:, :, keys], spans[:, :, queries], ramp, window),
            *(now[:, queries], then[:, keys]),
        )
        parts.append(checkpoint(_tile, *given, use_reentrant=False) if torch.is_grad_enabled() else _tile(*given))
    return torch.cat(parts, 2)


def _tile(q: Tensor, k: Tensor, v: Tensor, spans: Tensor, ramp: int, window: int, now: Tensor, then: Tensor) -> Tensor:
    """The outputs of queries at times `now` (B, T), over keys at times `then` (B, N), with spans (B, H, T)."""
    wide = torch.promote_types(q.dtype, torch.float32)
    age = (now[:, None, :, None] - then[:, None, None, :]).to(wide)
    m = ((ramp + spans.to(wide)[..., None] - age) / ramp).clamp(0, 1)
    seen = (m > 0) & (age >= 0) & (age < window) & (then >= 0)[:, None, None, :]
    z = (q @ k.mT).to(wide) / q.shape[3] ** 0.5
    z = z.masked_fill(~seen, -math.inf)
    top = z.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(wide).min)
    e = m * (z - top).exp()
    total = e.sum(-1, keepdim=True)
    return (e / total.masked_fill(total == 0, 1.0)).to(v.dtype) @ v
