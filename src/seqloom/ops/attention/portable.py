"""Computes the tiles of one part of a pattern by torch's operations, a few tiles of all heads at a time.

In shapes P is B H; the sizes N, b, M, c and m are those of `plan.Part`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import torch
from torch import Tensor

from seqloom.core.recording import keep
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
    y, log_sum = values.new_zeros(P, N, b, V), queries.new_full((P, N, b, 1), -torch.inf)
    for group in _groups(part, P, q.device):
        z = _scores(queries, keys, group, lengths, H)
        largest = z.amax(-1, keepdim=True).clamp(min=torch.finfo(z.dtype).min)
        e = z.sub_(largest).exp_()
        total = e.sum(-1, keepdim=True)
        mean = torch.bmm(e, _select_blocks(values, group.blocks)) / total.clamp(min=torch.finfo(z.dtype).tiny)
        y[:, group.rows] = mean.unflatten(0, (P, -1))
        log_sum[:, group.rows] = (largest + total.log()).unflatten(0, (P, -1))
    return _join_blocks(y, H), log_sum.view(-1, H, N * b)


def gradients(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, log_sum: Tensor, delta: Tensor, part: Part, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`tiled.Loops.gradients` in plain torch, a group of tiles at a time."""
    H, scale = q.shape[2], q.shape[3] ** -0.5
    queries, keys, values = (
        _by_head_and_block(q * scale, part.queries),
        _by_head_and_block(k, part.keys),
        _by_head_and_block(v, part.keys),
    )
    dy_blocks = _by_head_and_block(dy, part.queries)
    log_sums, deltas = (x.reshape(*queries.shape[:3], 1) for x in (log_sum, delta))
    dq, dk, dv = (tensor.new_zeros(tensor.shape) for tensor in (queries, keys, values))
    for group in _groups(part, len(queries), q.device):
        rows, blocks = group.rows, group.blocks
        z = _scores(queries, keys, group, lengths, H)
        a = z.sub_(_select_blocks(log_sums, rows)).exp_()
        dy_rows = _select_blocks(dy_blocks, rows)
        dz = torch.bmm(dy_rows, _select_blocks(values, blocks).mT).sub_(_select_blocks(deltas, rows)).mul_(a)
        dq[:, rows] = torch.bmm(dz, _select_blocks(keys, blocks)).unflatten(0, (len(queries), -1))
        _add(dk, blocks, torch.bmm(dz.mT, _select_blocks(queries, rows)))
        _add(dv, blocks, torch.bmm(a.mT, dy_rows))
    return _join_blocks(dq, H) * scale, _join_blocks(dk, H), _join_blocks(dv, H)


def _by_head_and_block(x: Tensor, times: Tensor) -> Tensor:
    """(B, N b, H, K) → (B H, N, b, K) for times (N, b)."""
    B, _, H, K = x.shape
    return x.transpose(1, 2).reshape(B * H, *times.shape, K)


def _join_blocks(blocks: Tensor, H: int) -> Tensor:
    """(B H, N, b, K) → (B, N b, H, K)."""
    return blocks.flatten(1, 2).unflatten(0, (-1, H)).transpose(1, 2)


@final
@dataclass(frozen=True)
class _Group:
    """A few blocks of queries that attend to equally many blocks of keys, on the device of the scores."""

    rows: Tensor
    """(n,): the indices of the blocks of queries"""
    blocks: Tensor
    """(n, m): the blocks of keys of each"""
    visible: Tensor
    """(n or 1, b, m c): the visible pairs"""
    key_time: Tensor
    """(n, 1, m c)"""


def _groups(part: Part, heads: int, device: torch.device) -> Iterable[_Group]:
    """The tiles of a part, a few at a time; on a GPU, to which a captured step cannot copy, they are kept."""
    return _tiles(part, heads, device) if device.type == "cpu" else keep(_cached_tiles(part, heads, device))


@lru_cache(maxsize=64)
def _cached_tiles(part: Part, heads: int, device: torch.device) -> tuple[_Group, ...]:
    """As `_tiles`, computed and copied to the device once."""
    return tuple(_tiles(part, heads, device))


def _tiles(part: Part, heads: int, device: torch.device) -> Iterator[_Group]:
    """Yields groups of blocks of queries, each with few enough scores."""
    b, c = part.table.shape[1:]
    counts = (part.blocks >= 0).sum(1)
    for count in counts.unique().tolist():
        if count:
            rows = torch.nonzero(counts == count)[:, 0]
            for chosen in rows.split(max(1, SCORES // (heads * b * c * count))):
                yield _group(part, chosen, count, device)


def _group(part: Part, rows: Tensor, count: int, device: torch.device) -> _Group:
    """Blocks of queries with `count` blocks of keys each."""
    blocks = part.blocks[rows, :count]
    masks = part.masks[rows, :count]
    masks = masks[:1] if bool((masks == masks[0]).all()) else masks
    visible = part.table[masks].transpose(1, 2).flatten(2)
    key_time = part.keys[blocks].flatten(1)[:, None]
    return _Group(rows.to(device), blocks.to(device), visible.to(device), key_time.to(device))


def _scores(queries: Tensor, keys: Tensor, group: _Group, lengths: Tensor | None, H: int) -> Tensor:
    """The scores (P n, b, m c) of these tiles, -inf for hidden pairs."""
    z = torch.bmm(_select_blocks(queries, group.rows), _select_blocks(keys, group.blocks).mT)
    by_head = z.unflatten(0, (len(queries) // H, H, len(group.rows)))  # a view: (B, H, n, b, m c)
    hidden = torch.zeros(group.visible.shape, dtype=z.dtype, device=z.device)
    by_head.add_(hidden.masked_fill_(~group.visible, -torch.inf))
    if lengths is not None:
        by_head.masked_fill_(group.key_time >= lengths[:, None, None, None, None], -torch.inf)
    return z


def _select_blocks(blocks: Tensor, indices: Tensor) -> Tensor:
    """The blocks of (P, N, b, K) at these indices: (P n, b, K) for indices (n,), (P n, m b, K) for (n, m)."""
    selected = blocks.index_select(1, indices.flatten())
    return selected.view(len(blocks) * len(indices), -1, blocks.shape[3])


def _add(total: Tensor, indices: Tensor, x: Tensor) -> None:
    """Adds x (P n, m c, K) to the blocks of `total` (P, M, c, K) at these indices (n, m)."""
    P, M, c, K = total.shape
    total.view(P, M, c * K).index_add_(1, indices.flatten(), x.view(P, -1, c * K))
