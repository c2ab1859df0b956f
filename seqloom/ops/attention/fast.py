"""Attention through torch's own kernels, which choose flash, memory-efficient or plain code for the device.

Where scores or values are changed, torch has no kernel that sees them, and the weights are formed. On a CPU the kernel
was compared with forming the weights, whole or in pieces, at (B, T, D, H) = (64, 128, 128, 1 and 32), (64, 32, 128, 32)
and (16, 512, 256, 4): it was never beaten by more than the noise, so there is no crossover to choose by (docs/log.md).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

PatternLike = Callable[[Tensor, Tensor], Tensor]
ScoreLike = Callable[[Tensor, Tensor, Tensor], Tensor]


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each place over itself and all before it: (B, H, T, K), (B, H, T, K), (B, H, T, V) → (B, H, T, V)."""
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: PatternLike,
    score_change: ScoreLike | None,
    value_change: ScoreLike | None,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """The equation of `seqloom.ops.attention` over a mask; shapes as in `attend` there."""
    now, then = times(q, query_time)[:, None, :, None], times(k, key_time)[:, None, None, :]
    seen = pattern(now, then) & (then >= 0)  # (B or 1, 1, Tq, Tk)
    blind = ~seen.any(-1, keepdim=True)
    if key_time is not None:  # an empty key is weighed 0, but 0 times NaN is NaN
        k, v = (torch.where((key_time >= 0)[:, None, :, None], each, 0.0) for each in (k, v))
    if score_change is None and value_change is None:
        y = scaled_dot_product_attention(q, k, v, attn_mask=seen | blind)
        return torch.where(blind, 0.0, y)
    z = q @ k.mT / math.sqrt(q.shape[-1])
    if score_change:
        z = score_change(z, now, then)
    a = z.masked_fill(~seen, -math.inf).masked_fill(blind, 0.0).softmax(-1)
    y = a @ v
    if value_change:
        y = y + value_change(a, now, then)
    return torch.where(blind, 0.0, y)


def times(tokens: Tensor, given: Tensor | None) -> Tensor:
    """The time of each token of (B, H, T, …): as given (B, T), else 0, 1, …, T-1 for every row."""
    if given is not None:
        return given
    return torch.arange(tokens.shape[2], device=tokens.device).expand(tokens.shape[0], -1)
