"""The reference: the equation, query by query; slow. The maximum that would stabilize exponentials is left out."""

import torch
from torch import Tensor


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
