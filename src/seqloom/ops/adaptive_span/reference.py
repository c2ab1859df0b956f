"""The equation as it is written, query by query, and its price, counted from it; slow.

The maximum that would stabilize exponentials is left out. The price is that of attention, and of the mask of every key
in the window.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost


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
    B, H, T = q.shape[:3]
    spans = spans.expand(B, H, T)
    rows = []
    for b in range(B):
        then = range(k.shape[2]) if key_time is None else key_time[b].tolist()
        outputs = []
        for t in range(T):
            i = t if query_time is None else int(query_time[b, t])
            keys = [n for n, j in enumerate(then) if 0 <= j <= i < j + window]
            ages = torch.tensor([i - then[n] for n in keys], dtype=q.dtype, device=q.device)
            outputs.append(_weighted(q[b, :, t], k[b][:, keys], v[b][:, keys], spans[b, :, t], ages, ramp))
        rows.append(torch.stack(outputs, 1))
    return torch.stack(rows)


def _weighted(q: Tensor, k: Tensor, v: Tensor, span: Tensor, ages: Tensor, ramp: int) -> Tensor:
    """One query (H, K) of some span (H,) over keys and values (H, N, ·) of these ages (N,)."""
    if k.shape[1] == 0:
        return torch.zeros_like(v[:, :0].sum(1))
    z = (k @ q[:, :, None])[:, :, 0] / q.shape[1] ** 0.5
    m = ((ramp + span[:, None] - ages) / ramp).clamp(0, 1)
    e = m * z.exp()
    return ((e / e.sum(1, keepdim=True))[:, None] @ v)[:, 0]


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head."""
    K, pairs, numbers = dim // heads, heads * terms, terms * dim
    return Cost(
        mul=2 * numbers + pairs,  # scores, values; the mask's weights
        add=pairs * (K - 1) + heads * rows + pairs + (pairs - heads * rows) + (terms - rows) * dim,
        div=3 * pairs,  # scores by √K, the ramp, the sum
        exp=pairs,
        other=pairs,  # the clip
        path=(
            *("multiplication", "cumulation", "division", "exponentiation", "multiplication", "cumulation"),
            *("division", "multiplication", "cumulation"),
        ),
    )
