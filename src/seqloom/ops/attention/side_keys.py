"""Attention over neighbors and over further keys that stand next to the text, under one softmax.

    y_i = Σ_j a_ij v_j          over visible (by `pattern`) keys up to `radius` tokens away, and visible side keys

A long text is cut into blocks of queries, and the keys near a block are gathered for it, so no T² matrix is formed.
Source: Ainslie et al., arXiv:2004.08483, appendix A; nothing differs.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.attention import attend as whole

BLOCK = 64
"""the fewest queries of a block"""


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    side_k: Float[Tensor, "B H S K"],
    side_v: Float[Tensor, "B H S V"],
    times: Int[Tensor, "B N"],
    radius: int,
    **changes: Any,
) -> Float[Tensor, "B H T V"]:
    """Attention of T queries at times 0, 1, …, over T keys and S side keys.

    `times` has the times of the keys, then those of the side keys; a key with a negative time is empty. `changes` are
    keyword arguments of `seqloom.ops.attention.attend`. The pattern must hide keys farther away than `radius`.
    """
    B, _, T, _ = q.shape
    block = max(BLOCK, radius)
    if 2 * (block + 2 * radius) >= T:
        now = torch.arange(T, device=q.device).expand(B, -1)
        k, v = torch.cat([k, side_k], 2), torch.cat([v, side_v], 2)
        return whole(q, k, v, query_time=now, key_time=times, **changes)
    N = -(-T // block)
    padding = N * block - T

    def windows(x: Tensor) -> Tensor:  # (B, H, T, K) → (B N, H, block + 2 radius, K)
        unfolded = pad(x, (0, 0, radius, padding + radius)).unfold(2, block + 2 * radius, block)
        return unfolded.permute(0, 2, 1, 4, 3).flatten(0, 1)

    def repeat_heads(x: Tensor) -> Tensor:  # (B, …) → (B N, …)
        return x[:, None].expand(B, N, *x.shape[1:]).flatten(0, 1)

    then = pad(times[:, :T], (radius, padding + radius), value=-1).unfold(1, block + 2 * radius, block).flatten(0, 1)
    y = whole(
        pad(q, (0, 0, 0, padding)).unflatten(2, (N, block)).transpose(1, 2).flatten(0, 1),
        torch.cat([windows(k), repeat_heads(side_k)], 2),
        torch.cat([windows(v), repeat_heads(side_v)], 2),
        query_time=torch.arange(N * block, device=q.device).clamp(max=T - 1).view(N, block).repeat(B, 1),
        key_time=torch.cat([then, repeat_heads(times[:, T:])], 1),
        **changes,
    )
    return y.unflatten(0, (B, N)).transpose(1, 2).flatten(2, 3)[:, :, :T]
