"""Attention over the tiles of a plan in torch's own operations: a few tiles of all heads at a time."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.attention.plan import Part

SCORES = 1 << 19
"""scores that are formed at a time, so that they stay in the cache"""


def attend(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, parts: tuple[Part, ...]) -> Tensor:
    """(B, H, T, K), (B, H, T, K), (B, H, T, V), keys of each row (B,) or all, the parts of a pattern → (B, H, T, V)."""
    wide = torch.promote_types(q.dtype, torch.float32)
    y: Tensor = _Tiled.apply(q.to(wide) / q.shape[-1] ** 0.5, k.to(wide), v.to(wide), lengths, parts)  # type: ignore[no-untyped-call]
    return y.to(q.dtype)


class _Tiled(torch.autograd.Function):
    """(scaled q, k, v, lengths, parts) → y, see `attend`."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, parts: tuple[Part, ...]) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            y, log = forward(q, k, v, lengths, parts[0])
            for part in parts[1:]:
                y, log = joined(y, log, *forward(q, k, v, lengths, part))
        ctx.save_for_backward(q, k, v, y, log, lengths)
        ctx.parts = parts
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of sparse_attention over tiles are not implemented: force 'masked'")
        q, k, v, y, log, lengths = ctx.saved_tensors
        log = log.masked_fill(log == -torch.inf, torch.inf)  # e^(z - log) is 0 where nothing is looked at
        delta = (dy * y).sum(-1)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        with torch.autocast(q.device.type, enabled=False):
            for part in ctx.parts:
                found = backward(q, k, v, lengths, log, delta, dy, part)
                for total, one in zip((dq, dk, dv), found, strict=True):
                    total.add_(one)
        return dq, dk, dv, None, None


def joined(y: Tensor, log: Tensor, other: Tensor, other_log: Tensor) -> tuple[Tensor, Tensor]:
    """Two averages over keys that they do not share, with the logarithms of their sums, as one."""
    both = torch.logaddexp(log, other_log)
    ours, theirs = (torch.nan_to_num(torch.exp(each - both))[..., None] for each in (log, other_log))
    return y * ours + other * theirs, both


def forward(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, part: Part) -> tuple[Tensor, Tensor]:
    """What one part gives: y (B, H, T, V), and log Σ_j e^{z_ij} (B, H, T), -inf where nothing is looked at."""
    (B, H, T, _), (N, b) = q.shape, part.queries.shape
    queries, keys, values = blocked(q, part.queries), blocked(k, part.keys), blocked(v, part.keys)
    y, log = values.new_zeros(B * H, N, b, v.shape[3]), q.new_full((B * H, N, b, 1), -torch.inf)
    for rows, blocks in _tiles(part, B * H):
        z = _scores(queries, keys, rows, blocks, lengths, part, H)
        top = z.amax(-1, keepdim=True).clamp(min=torch.finfo(z.dtype).min)
        e = z.sub_(top).exp_()
        total = e.sum(-1, keepdim=True)
        average = torch.bmm(e, _picked(values, blocks)) / total.clamp(min=torch.finfo(z.dtype).tiny)
        y[:, rows] = average.unflatten(0, (B * H, -1))
        log[:, rows] = (top + total.log()).unflatten(0, (B * H, -1))
    return _timed(y, part.queries, T).unflatten(0, (B, H)), _timed(log, part.queries, T, -torch.inf).reshape(B, H, T)


def backward(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, log: Tensor, delta: Tensor, dy: Tensor, part: Part
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v through one part."""
    B, H, T, _ = q.shape
    queries, keys, values = blocked(q, part.queries), blocked(k, part.keys), blocked(v, part.keys)
    wanted, logs, deltas = (blocked(each, part.queries) for each in (dy, log[..., None], delta[..., None]))
    dq, dk, dv = (each.new_zeros(each.shape) for each in (queries, keys, values))
    for rows, blocks in _tiles(part, B * H):
        z = _scores(queries, keys, rows, blocks, lengths, part, H)
        a = z.sub_(_picked(logs, rows)).exp_()
        dy_rows = _picked(wanted, rows)
        dz = torch.bmm(dy_rows, _picked(values, blocks).mT).sub_(_picked(deltas, rows)).mul_(a)
        dq[:, rows] = torch.bmm(dz, _picked(keys, blocks)).unflatten(0, (B * H, -1))
        _add(dk, blocks, torch.bmm(dz.mT, _picked(queries, rows)))
        _add(dv, blocks, torch.bmm(a.mT, dy_rows))
    found = _timed(dq, part.queries, T), _timed(dk, part.keys, T), _timed(dv, part.keys, T)
    return found[0].reshape(q.shape), found[1].reshape(k.shape), found[2].reshape(v.shape)


def blocked(x: Tensor, times: Tensor) -> Tensor:
    """The tokens of (B, H, T, K) at these times (N, b), 0 at -1: (B H, N, b, K)."""
    (N, b), T = times.shape, x.shape[2]
    x = x.flatten(0, 1)
    if _in_order(times, T):
        return pad(x, (0, 0, 0, N * b - T)).reshape(len(x), N, b, x.shape[2])
    chosen = torch.where(times < 0, T, times).flatten().to(x.device)
    return pad(x, (0, 0, 0, 1)).index_select(1, chosen).view(len(x), N, b, x.shape[2])


def _timed(blocks: Tensor, times: Tensor, T: int, empty: float = 0.0) -> Tensor:
    """What `blocked` began from: (P, N, b, K) → (P, T, K), `empty` at times that are in no block."""
    tokens = blocks.flatten(1, 2)
    if _in_order(times, T):
        return tokens[:, :T]
    chosen = torch.where(times < 0, T, times).flatten().to(blocks.device)
    found = tokens.new_full((len(tokens), T + 1, tokens.shape[2]), empty)
    return found.index_copy_(1, chosen, tokens)[:, :T]


def _in_order(times: Tensor, T: int) -> bool:
    flat = times.view(-1)
    return len(flat) >= T and bool((flat[:T] == torch.arange(T)).all())


def _tiles(part: Part, heads: int) -> Iterator[tuple[Tensor, Tensor]]:
    """A few blocks of queries (n,) at a time, and the blocks of keys (n, m) that each of them touches."""
    (b, c), counts = part.table.shape[1:], (part.blocks >= 0).sum(1)
    for count in counts.unique().tolist():
        if count:
            rows = torch.nonzero(counts == count)[:, 0]
            for some in rows.split(max(1, SCORES // (heads * b * c * count))):
                yield some, part.blocks[some, :count]


def _scores(
    queries: Tensor, keys: Tensor, rows: Tensor, blocks: Tensor, lengths: Tensor | None, part: Part, H: int
) -> Tensor:
    """The scores (P n, b, m c) of these tiles, -inf where nothing is looked at."""
    z = torch.bmm(_picked(queries, rows), _picked(keys, blocks).mT)
    masks = part.masks[rows, : blocks.shape[1]]
    masks = masks[:1] if bool((masks == masks[0]).all()) else masks
    looked = part.table[masks].transpose(1, 2).flatten(2).to(z.device)  # (n or 1, b, m c)
    view = z.unflatten(0, (len(queries) // H, H, len(rows)))
    view.masked_fill_(~looked, -torch.inf)
    if lengths is not None:
        then = part.keys[blocks].flatten(1).to(z.device)[:, None]  # (n, 1, m c)
        view.masked_fill_(then >= lengths[:, None, None, None, None], -torch.inf)
    return z


def _picked(blocks: Tensor, numbers: Tensor) -> Tensor:
    """These blocks of (P, N, b, K): of numbers (n,) as (P n, b, K), of (n, m) as (P n, m b, K)."""
    found = blocks.index_select(1, numbers.flatten().to(blocks.device))
    return found.view(len(blocks) * len(numbers), -1, blocks.shape[3])


def _add(total: Tensor, numbers: Tensor, found: Tensor) -> None:
    """Adds (P n, m c, K) to the blocks (n, m) of (P, M, c, K)."""
    P, M, c, K = total.shape
    total.view(P, M, c * K).index_add_(1, numbers.flatten().to(total.device), found.view(P, -1, c * K))
