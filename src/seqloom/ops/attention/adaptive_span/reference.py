"""The equation as it is written, query by query, and its price, counted from it; slow.

No maximum is subtracted from the scores, because the equation has none. The price is that of attention, plus that of
the mask of every key in the window.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def attend_spans(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spans: Tensor,
    ramp: int,
    window: int,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """See `attend_spans` of the package."""
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
            outputs.append(_average_values(q[b, :, t], k[b][:, keys], v[b][:, keys], spans[b, :, t], ages, ramp))
        rows.append(torch.stack(outputs, 1))
    return torch.stack(rows)


def _average_values(q: Tensor, k: Tensor, v: Tensor, span: Tensor, ages: Tensor, ramp: int) -> Tensor:
    """One query (H, K) of some span (H,) over keys and values (H, N, ·) of these ages (N,)."""
    if k.shape[1] == 0:
        return torch.zeros_like(v[:, :0].sum(1))
    z = (k @ q[:, :, None])[:, :, 0] / q.shape[1] ** 0.5
    m = ((ramp + span[:, None] - ages) / ramp).clamp(0, 1)
    e = m * z.exp()
    return ((e / e.sum(1, keepdim=True))[:, None] @ v)[:, 0]


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head."""
    K = dim // heads
    pairs = heads * terms
    products = terms * dim  # of a query and a key, or of a weight and a value, over all pairs
    scores = pairs * (K - 1)
    ramps = heads * rows + pairs  # R + s for each query, less i - j for each pair
    sums = pairs - heads * rows
    values = (terms - rows) * dim
    return Cost(
        mul=2 * products + pairs,  # scores and values; the weights times m
        add=scores + ramps + sums + values,
        div=3 * pairs,  # scores by √K, the mask by R, the weights by their sum
        exp=pairs,
        other=pairs,  # the clip
        path=(
            *("multiplication", "cumulation", "division", "exponentiation", "multiplication", "cumulation"),
            *("division", "multiplication", "cumulation"),
        ),
    )
