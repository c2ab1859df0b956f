"""The reference: the equation, row by row and query by query, over the old keys only; slow.

As in the reference of `attention`, no maximum stabilizes the exponentials.
"""

import torch
from torch import Tensor

from seqloom.ops.bucketing.choices import chosen


def recall(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    """See `recall` of the package; `seen` (B or 1, 1, T, N) is True at old keys."""
    seen = seen.expand(len(q), -1, -1, -1)
    rows = [
        torch.stack([_query(q[b, :, i], k[b], v[b], seen[b, 0, i], count) for i in range(q.shape[2])], 1)
        for b in range(len(q))
    ]
    return torch.stack(rows)


def _query(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, count: int) -> Tensor:
    """One query (H, K) over keys (H, N, K)."""
    if not bool(seen.any()):
        return v.new_zeros(len(v), v.shape[2])
    k, v = k[:, seen], v[:, seen]
    scores = torch.bmm(k, q[:, :, None])[:, :, 0]  # (H, N)
    largest = chosen(lambda: scores.topk(min(count, scores.shape[1])).indices)
    e = torch.exp(scores.gather(1, largest) / k.shape[2] ** 0.5)
    a = e / e.sum(1, keepdim=True)
    of_largest = v.gather(1, largest[:, :, None].expand(-1, -1, v.shape[2]))
    return torch.bmm(a[:, None], of_largest)[:, 0]
