"""Computes the tiles of one part of a pattern by torch's operations, a few tiles of all heads at a time."""

from collections.abc import Iterator

import torch
from torch import Tensor

from seqloom.ops.attention.plan import Part

SCORES = 1 << 19
"""scores that are computed at a time, few enough for the cache"""


def average(q: Tensor, k: Tensor, v: Tensor, part: Part, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """`tiled.Loops.average` in plain torch, a group of tiles at a time."""
    H = q.shape[2]
    queries, keys, values = (
        _by_head_and_block(q * q.shape[3] ** -0.5, part.queries),
        _by_head_and_block(k, part.keys),
        _by_head_and_block(v, part.keys),
    )
    (P, N, b, _), V = queries.shape, values.shape[3]
    y, log = values.new_zeros(P, N, b, V), queries.new_full((P, N, b, 1), -torch.inf)
    for rows, blocks in _tiles(part, P):
        z = _scores(queries, keys, rows, blocks, lengths, part, H)
        top = z.amax(-1, keepdim=True).clamp(min=torch.finfo(z.dtype).min)
        e = z.sub_(top).exp_()
        total = e.sum(-1, keepdim=True)
        mean = torch.bmm(e, _picked(values, blocks)) / total.clamp(min=torch.finfo(z.dtype).tiny)
        y[:, rows] = mean.unflatten(0, (P, -1))
        log[:, rows] = (top + total.log()).unflatten(0, (P, -1))
    return _joined(y, H), log.view(-1, H, N * b)


def gradients(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, log: Tensor, delta: Tensor, part: Part, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of `tiled.Loops` in plain torch."""
    H, scale = q.shape[2], q.shape[3] ** -0.5
    queries, keys, values = (
        _by_head_and_block(q * scale, part.queries),
        _by_head_and_block(k, part.keys),
        _by_head_and_block(v, part.keys),
    )
    wanted, logs, deltas = (
        _by_head_and_block(dy, part.queries),
        *(x.reshape(*queries.shape[:3], 1) for x in (log, delta)),
    )
    dq, dk, dv = (tensor.new_zeros(tensor.shape) for tensor in (queries, keys, values))
    for rows, blocks in _tiles(part, len(queries)):
        z = _scores(queries, keys, rows, blocks, lengths, part, H)
        a = z.sub_(_picked(logs, rows)).exp_()
        dy_rows = _picked(wanted, rows)
        dz = torch.bmm(dy_rows, _picked(values, blocks).mT).sub_(_picked(deltas, rows)).mul_(a)
        dq[:, rows] = torch.bmm(dz, _picked(keys, blocks)).unflatten(0, (len(queries), -1))
        _add(dk, blocks, torch.bmm(dz.mT, _picked(queries, rows)))
        _add(dv, blocks, torch.bmm(a.mT, dy_rows))
    return _joined(dq, H) * scale, _joined(dk, H), _joined(dv, H)


def _by_head_and_block(x: Tensor, times: Tensor) -> Tensor:
    """(B, N b, H, K) → (B H, N, b, K) for times (N, b)."""
    B, _, H, K = x.shape
    return x.transpose(1, 2).reshape(B * H, *times.shape, K)


def _joined(blocks: Tensor, H: int) -> Tensor:
    """(B H, N, b, K) → (B, N b, H, K)."""
    return blocks.flatten(1, 2).unflatten(0, (-1, H)).transpose(1, 2)


def _tiles(part: Part, heads: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields a few blocks of queries (n,) at a time, with the blocks of keys (n, m) that each of them attends to."""
    (b, c), counts = part.table.shape[1:], (part.blocks >= 0).sum(1)
    for count in counts.unique().tolist():
        if count:
            rows = torch.nonzero(counts == count)[:, 0]
            for some in rows.split(max(1, SCORES // (heads * b * c * count))):
                yield some, part.blocks[some, :count]


def _scores(
    queries: Tensor, keys: Tensor, rows: Tensor, blocks: Tensor, lengths: Tensor | None, part: Part, H: int
) -> Tensor:
    """The scores (P n, b, m c) of these tiles, -inf for hidden pairs."""
    z = torch.bmm(_picked(queries, rows), _picked(keys, blocks).mT)
    masks = part.masks[rows, : blocks.shape[1]]
    masks = masks[:1] if bool((masks == masks[0]).all()) else masks
    visible = part.table[masks].transpose(1, 2).flatten(2).to(z.device)  # (n or 1, b, m c)
    view = z.unflatten(0, (len(queries) // H, H, len(rows)))
    view.add_(torch.zeros(visible.shape, dtype=z.dtype, device=z.device).masked_fill_(~visible, -torch.inf))
    if lengths is not None:
        key_time = part.keys[blocks].flatten(1).to(z.device)[:, None]  # (n, 1, m c)
        view.masked_fill_(key_time >= lengths[:, None, None, None, None], -torch.inf)
    return z


def _picked(blocks: Tensor, numbers: Tensor) -> Tensor:
    """The blocks of (P, N, b, K) with these numbers: (P n, b, K) for numbers (n,), (P n, m b, K) for (n, m)."""
    result = blocks.index_select(1, numbers.flatten().to(blocks.device))
    return result.view(len(blocks) * len(numbers), -1, blocks.shape[3])


def _add(total: Tensor, numbers: Tensor, result: Tensor) -> None:
    """Adds (P n, m c, K) to the blocks (n, m) of (P, M, c, K)."""
    P, M, c, K = total.shape
    total.view(P, M, c * K).index_add_(1, numbers.flatten().to(total.device), result.view(P, -1, c * K))
