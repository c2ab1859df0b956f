"""The equation as it is written, query by query, and its price, counted from it; slow.

The log gate of each query is added to the sums of all keys. As in the reference of `attention`, no maximum stabilizes
the exponentials. The price is that of attention, and of the addition of the cumulative gates to each score.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.ops.attention.reference import price as attention_price


def forgetting(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    past: Tensor | None,
    window: int | None,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """See `forgetting` of the package."""
    zero = torch.zeros_like(g[..., :1])
    outputs = []
    first = 0  # the first key that a query may still see
    sums, P = (g[..., :0], 0) if past is None else (past, past.shape[2])
    for i in range(q.shape[2]):
        if past is None and window is not None:  # drops keys that no query sees any more
            dropped = max(0, i + 1 - window) - first
            first, sums = first + dropped, sums[..., dropped:]
        decayed = torch.cat([sums, zero], -1) + g[..., i, None]
        sums = torch.cat([decayed[..., :-1], zero], -1)
        visible = None
        if query_time is not None and key_time is not None:
            now, then = query_time[:, i, None], key_time[:, : P + i + 1]
            within = then >= 0 if window is None else (then >= 0) & (now - then < window)
            visible = (within & (then <= now))[:, None, None]
        keys = slice(first, P + i + 1)
        outputs.append(average_values(q[:, :, i : i + 1], k[:, :, keys], v[:, :, keys], sums, visible))
    return torch.cat(outputs, 2)


def average_values(q: Tensor, k: Tensor, v: Tensor, sums: Tensor, visible: Tensor | None = None) -> Tensor:
    """One query (B, H, 1, K) over keys and values (B, H, N, ·) whose scores have these sums (B, H, N) added."""
    z = q @ k.mT / k.shape[-1] ** 0.5 + sums[:, :, None].to(q.dtype)
    if visible is not None:
        z = z.masked_fill(~visible, -torch.inf)
    return z.softmax(-1) @ v


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head."""
    return Cost(add=heads * terms) + attention_price(rows, terms, dim, heads, bias=True)
