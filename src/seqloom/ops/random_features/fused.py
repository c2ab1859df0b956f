"""The positive features of `stable` from queries and keys at once, a piece at a time, which stays in the cache.

    a = x Wᵀ,   φ(q) = e^{a - max a},   φ(k_t) = e^{a_t - |k_t|²/2 - ln √F - M_t}
    dx = (dφ ∘ φ) W - x Σ_f (dφ ∘ φ)_f

The product is by the faster one of torch's matrix libraries. A term that all features of a query have in common cancels
in φ(q).
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from seqloom.ops.fused.projection import onednn
from seqloom.ops.random_features.stable import LOWEST

TOKENS = 2048
"""of a piece: with 266 features of float32 it has 2 MB"""


def exponentials(
    q: Tensor, k: Tensor, w: Tensor, peak: Tensor | None, keep: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `stable.exponentials` returns for the logarithms of the features of q, k (B, H, T, K) along w (H, F, K)."""
    before = k.new_full(k.shape[:2], LOWEST) if peak is None else peak.to(k.dtype)
    q_features, _ = _Features.apply(q, w, None, None)  # type: ignore[no-untyped-call]  # torch does not type apply
    k_features, M = _Features.apply(k, w, before, keep)  # type: ignore[no-untyped-call]
    first = M[:, :, :1] if peak is None else before[..., None]
    return q_features, k_features, torch.cat([first, M[:, :, :-1]], 2) - M, M[:, :, -1].clone()


class _Features(torch.autograd.Function):
    """φ of x (B, H, T, K), and M (B, H, T) after `peak` (B, H) for keys; without a peak they are queries."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, peak: Tensor | None, keep: Tensor | None) -> tuple[Tensor, Tensor]:
        y, M = x.new_empty(*x.shape[:3], w.shape[1]), x.new_empty(x.shape[:3])
        log_scale = x.square().sum(-1) / -2 - math.log(w.shape[1]) / 2
        for head, rows, tokens in _pieces(x):
            piece = rows, head, tokens
            a = _product(x[piece], w[head])
            if peak is None:
                y[piece] = a.sub_(a.amax(-1, keepdim=True)).exp_()
                continue
            highest = a.add_(log_scale[piece][..., None]).amax(-1)
            if keep is not None:
                highest = highest.masked_fill(~keep[rows, tokens], LOWEST)
            before = peak[rows, head] if tokens.start == 0 else M[rows, head, tokens.start - 1]
            torch.maximum(highest.cummax(1).values, before[:, None], out=M[piece])
            a.sub_(M[piece][..., None]).exp_()
            y[piece] = a if keep is None else a.masked_fill_(~keep[rows, tokens, None], 0.0)
        ctx.save_for_backward(x, w, y)
        ctx.mark_non_differentiable(M)
        return y, M

    @staticmethod
    def backward(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, w, y = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives
            da = dy * y
            return da @ w - x * da.sum(-1, keepdim=True), None, None, None
        dx = torch.empty_like(x)
        for head, rows, tokens in _pieces(x):
            piece = rows, head, tokens
            da = dy[piece] * y[piece]
            dx[piece] = _product(da, w[head].mT).addcmul_(x[piece], da.sum(-1, keepdim=True), value=-1)
        return dx, None, None, None


def _pieces(x: Tensor) -> Iterator[tuple[int, slice, slice]]:
    """Head, rows and tokens of each piece of (B, H, T, K)."""
    B, H, T, _ = x.shape
    count = max(1, TOKENS // T)
    for head in range(H):
        for row in range(0, B, count):
            for token in range(0, T, TOKENS):
                yield head, slice(row, row + count), slice(token, min(token + TOKENS, T))


def _product(x: Tensor, w: Tensor) -> Tensor:
    """x wᵀ, never rounded by autocast."""
    with torch.autocast("cpu", enabled=False):
        return onednn.product(x.contiguous(), w) if onednn.faster() and onednn.supports(x, w, None) else linear(x, w)
