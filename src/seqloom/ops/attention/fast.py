"""Attention by torch's kernels, or by forming the weights.

`kernel` lets torch choose flash, memory-efficient or plain code for the device; it does not support changes of scores
or values. `attend_by_scores` computes the weights (B, H, Tq, Tk) and saves them for the backward pass. On a CPU
`attend_by_scores` is faster for short rows in narrow heads (11% of a sublayer at T 32 with heads of width 4), and as
fast or slower in all other cases that were measured (docs/log.md).
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from seqloom.ops.attention.scores import Scores

PatternLike = Callable[[Tensor, Tensor], Tensor]

SCORES = 1 << 25
"""scores in memory at a time; one row with 4 heads has as many at 2,896 tokens"""

WIDENED = 256
"""the most keys at which torch's kernel for a CPU is slower in bfloat16 than in float32 with conversions: up to 4 times
slower, most of all in narrow heads (docs/log.md)"""


def causal(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """Attention of each position to itself and all before: (B, H, T, K), (B, G, T, K), (B, G, T, V) → (B, H, T, V)."""
    return _attend(q, k, v, scale, is_causal=True)


def attend_unmasked(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """Attention of each query to all keys: (B, H, Tq, K), (B, G, Tk, K), (B, G, Tk, V) → (B, H, Tq, V)."""
    return _attend(q, k, v, scale)


def kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: PatternLike,
    query_time: Tensor | None,
    key_time: Tensor | None,
    scale: float | None,
) -> Tensor:
    """The equation of `seqloom.ops.attention` without changes, by a mask; shapes as in `attend` there."""
    k, v, visible, no_keys, _, _ = _gather_visible(q, k, v, pattern, query_time, key_time)
    return torch.where(no_keys, 0.0, _attend(q, k, v, scale, attn_mask=visible | no_keys))


def attend_by_scores(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: PatternLike,
    query_time: Tensor | None,
    key_time: Tensor | None,
    scores: Scores,
) -> Tensor:
    """The equation of `seqloom.ops.attention` with all changes; shapes as in `attend` there.

    Where there are more than `SCORES` scores, a block of queries is computed at a time, and the backward pass
    recomputes it.
    """
    rows = 1 if torch.compiler.is_exporting() else q.shape[0]  # an exported graph serves any number of rows
    block_size = max(1, SCORES // max(1, rows * q.shape[1] * k.shape[2]))
    if block_size >= q.shape[2]:
        return _attend_by_scores(q, k, v, pattern, query_time, key_time, scores)
    now, then = times(q, query_time).expand(len(q), -1), times(k, key_time).expand(len(q), -1)
    outputs = []
    for start in range(0, q.shape[2], block_size):
        block = slice(start, start + block_size)
        inputs = (q[:, :, block], k, v, pattern, now[:, block], then, scores)
        y = (
            checkpoint(_attend_by_scores, *inputs, use_reentrant=False)
            if torch.is_grad_enabled()
            else _attend_by_scores(*inputs)
        )
        outputs.append(y)
    return torch.cat(outputs, 2)


def _attend_by_scores(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: PatternLike,
    query_time: Tensor | None,
    key_time: Tensor | None,
    scores: Scores,
) -> Tensor:
    k, v, visible, no_keys, now, then = _gather_visible(
        q, of_queries(q, k), of_queries(q, v), pattern, query_time, key_time
    )
    z = scores.of(q, k, now, then).masked_fill(~visible, -math.inf).masked_fill(no_keys, 0.0)
    if scores.sinks is None:
        a = z.softmax(-1)
    else:
        sinks = scores.sinks.to(z.dtype)[:, None, None].expand(*z.shape[:3], 1)
        a = torch.cat([z, sinks], -1).softmax(-1)[..., :-1]
    y = a @ v
    if scores.value_change is not None:
        y = y + scores.value_change(a, now, then)
    return torch.where(no_keys, 0.0, y)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Torch's kernel, in float32 where that is faster."""
    K, V = q.shape[-1], v.shape[-1]
    if K != V and q.device.type == "cpu":  # torch's flash kernel needs equal widths
        q, k, v = (pad(tensor, (0, max(K, V) - tensor.shape[-1])) for tensor in (q, k, v))
        return _attend(q, k, v, K**-0.5 if scale is None else scale, attn_mask, is_causal)[..., :V]
    grouped = q.shape[1] != k.shape[1]
    if grouped and attn_mask is not None and q.device.type != "cpu":  # no GPU kernel takes both a mask and groups
        k, v, grouped = of_queries(q, k), of_queries(q, v), False
    inputs: dict[str, Any] = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale, "enable_gqa": grouped}
    if q.dtype != torch.bfloat16 or q.device.type != "cpu" or k.shape[2] > WIDENED:
        return scaled_dot_product_attention(q, k, v, **inputs)
    with torch.autocast("cpu", enabled=False):  # autocast would convert them back
        return scaled_dot_product_attention(q.float(), k.float(), v.float(), **inputs).to(q.dtype)


def of_queries(q: Tensor, kv: Tensor) -> Tensor:
    """Keys or values (B, G, Tk, K) repeated for the H heads of queries, H/G of which share a head."""
    return kv if kv.shape[1] == q.shape[1] else kv.repeat_interleave(q.shape[1] // kv.shape[1], 1)


def _gather_visible(
    q: Tensor, k: Tensor, v: Tensor, pattern: PatternLike, query_time: Tensor | None, key_time: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Keys, values, which pairs are visible (B or 1, 1, Tq, Tk), which queries see no key, and the times of both.

    Keys and values with a negative time are replaced by 0.
    """
    now, then = times(q, query_time)[:, None, :, None], times(k, key_time)[:, None, None, :]
    visible = pattern(now, then) & (then >= 0)
    if key_time is not None:  # an empty key has the weight 0, but 0 times NaN is NaN
        k, v = (torch.where((key_time >= 0)[:, None, :, None], tensor, 0.0) for tensor in (k, v))
    return k, v, visible, ~visible.any(-1, keepdim=True), now, then


def times(tokens: Tensor, given_times: Tensor | None) -> Tensor:
    """The time of each token of (B, H, T, …): `given_times` (B, T), or 0, 1, …, T-1 (1, T) where they are None."""
    if given_times is not None:
        return given_times
    return torch.arange(tokens.shape[2], device=tokens.device)[None]
