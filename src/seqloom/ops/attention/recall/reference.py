"""The equation as it is written, query by query over the old keys, and its price, counted from it; slow.

As in the reference of `attention`, no maximum stabilizes the exponentials. The price has the products with all old
keys, a comparison of each product, and attention to the keys that are read.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.ops.bucketing.choices import make_choice


def recall(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    """See `recall` of the package; `seen` (B or 1, 1, T, N) is True at old keys."""
    seen = seen.expand(len(q), -1, -1, -1)
    rows = [
        torch.stack([_query(q[b, :, i], k[b], v[b], seen[b, 0, i], count) for i in range(q.shape[2])], 1)
        for b in range(len(q))
    ]
    return torch.stack(rows)


def _query(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    """The output (H, V) of one query (H, K) over those of the keys (H, N, K) that are `seen` (N,)."""
    if not bool(seen.any()):
        return v.new_zeros(len(v), v.shape[2])
    k, v = k[:, seen], v[:, seen]
    scores = torch.bmm(k, q[:, :, None])[:, :, 0]  # (H, N)
    largest = make_choice(lambda: scores.sort(stable=True, dim=1, descending=True).indices[:, :count])
    e = torch.exp(scores.gather(1, largest) / k.shape[2] ** 0.5)
    a = e / e.sum(1, keepdim=True)
    values = v.gather(1, largest[:, :, None].expand(-1, -1, v.shape[2]))
    return torch.bmm(a[:, None], values)[:, 0]


def price(rows: int, terms: int, read: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries with `terms` old keys in all, of which they read `read`, per head."""
    K = dim // heads
    return Cost(
        mul=dim * (terms + read),
        add=heads * (terms * (K - 1) + (read - rows) + (read - rows) * K),
        div=2 * heads * read,
        exp=heads * read,
        other=heads * terms,
        path=(
            *("multiplication", "cumulation", "other", "division", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )
