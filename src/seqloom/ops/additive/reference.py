"""The reference: the equation, query by query; slow."""

import torch
from torch import Tensor


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
    outputs = []
    for i in range(q.shape[2]):
        rows = []
        for b in range(len(q)):
            now = i if query_time is None else int(query_time[b, i])
            then = range(k.shape[2]) if key_time is None else key_time[b].tolist()
            keys = [n for n, j in enumerate(then) if j >= 0 and _seen(now, j, causal, window)]
            rows.append(_weighted(q[b, :, i], k[b][:, keys], v[b][:, keys], w))
        outputs.append(torch.stack(rows))
    return torch.stack(outputs, 2)


def _seen(i: int, j: int, causal: bool, window: int | None) -> bool:
    near = window is None or abs(i - j) < window
    return near and (j <= i or not causal)


def _weighted(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """One query (H, K) over keys and values (H, N, ·) that it sees."""
    if k.shape[1] == 0:
        return torch.zeros_like(v[:, :0].sum(1))
    scores = (torch.tanh(q[:, None] + k) @ w[:, :, None])[:, :, 0]
    return (scores.softmax(-1)[:, None] @ v)[:, 0]
