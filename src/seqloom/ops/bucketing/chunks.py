"""Computes all chunks at once, by matrix products of each chunk with its own slots and those of the chunk before."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.bucketing.orders import Order, Rule


def attend(q: Tensor, k: Tensor, v: Tensor, time: Tensor, order: Order, rule: Rule) -> Tensor:
    """See `attend` of the package."""
    chunks = chunks_of(q, time, order, rule)
    q_rows, k_rows, v_rows = (x.flatten(0, 2) for x in (q, k, v))
    visible, alone = chunks.masks(slice(None))
    queries = q_rows.index_select(0, chunks.queries.flatten()).unflatten(0, chunks.queries.shape)
    keys, values = (x.index_select(0, chunks.keys.flatten()).unflatten(0, chunks.keys.shape) for x in (k_rows, v_rows))
    z = queries @ keys.mT
    z = z.to(torch.promote_types(z.dtype, torch.float32)).masked_fill(~visible, -torch.inf)
    top = z.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(z.dtype).min)
    e = (z - top).exp()
    slot_sums = (e.to(v.dtype) @ values).to(e.dtype)
    y, total, _, _ = join_slots(chunks, slot_sums, e.sum(-1), top[..., 0], alone[..., 0], len(q_rows))
    return (y / total.masked_fill(total == 0, 1.0)).to(v.dtype).view_as(v)


def join_slots(
    chunks: "Chunks", y: Tensor, total: Tensor, top: Tensor, alone: Tensor, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Joins the sums of the slots of each token.

    `y` (G, m, V) and `total` (G, m) are the sums of values and of exponentials over the keys of each slot, divided by
    e^top. Returns the sums of values (rows, V), the sums of exponentials (rows, 1) and the maxima (rows, 1) of each
    token, and which slots are hidden (G, m): empty ones, and a slot that attended only to its own token, unless all
    slots of the token did.
    """
    token, with_others = chunks.queries.flatten(), (~alone & chunks.real).flatten()
    with torch.no_grad():
        has_others = torch.zeros(rows, dtype=torch.long, device=y.device).index_add(0, token, with_others.long()) > 0
        hidden = ~chunks.real.flatten() | (alone.flatten() & has_others[token])
        lowest = torch.finfo(y.dtype).min
        top = top.flatten().masked_fill(hidden, lowest)
        token_top = torch.full((rows,), lowest, dtype=y.dtype, device=y.device).scatter_reduce(0, token, top, "amax")
        weight = (top - token_top[token]).exp().masked_fill(hidden, 0.0)
    values = torch.zeros(rows, y.shape[-1], dtype=y.dtype, device=y.device).index_add(
        0, token, y.flatten(0, 1) * weight[:, None]
    )
    sums = torch.zeros(rows, dtype=y.dtype, device=y.device).index_add(0, token, total.flatten() * weight)
    return values, sums[:, None], token_top[:, None], hidden.view_as(chunks.queries)


@final
@dataclass(frozen=True)
class Chunks:
    """The chunks of all orders: G chunks of m slots, which attend to M slots each."""

    rule: Rule
    queries: Int[Tensor, "G m"]
    """indices of rows of (B H T, K); arbitrary for empty slots"""
    keys: Int[Tensor, "G M"]
    times: tuple[Int[Tensor, "G m"], Int[Tensor, "G M"]]
    """times of queries and keys; -1 for empty slots"""
    buckets: tuple[Int[Tensor, "G m"], Int[Tensor, "G M"]]

    @property
    def real(self) -> Bool[Tensor, "G m"]:
        """Whether a slot holds a token."""
        return self.times[0] >= 0

    def masks(self, index: slice) -> tuple[Bool[Tensor, "g m M"], Bool[Tensor, "g m 1"]]:
        """For the chunks of a slice, which slots attend to which, and which slots attend only to their own token."""
        i, query_bucket = self.times[0][index, :, None], self.buckets[0][index, :, None]
        j, key_bucket = self.times[1][index, None], self.buckets[1][index, None]
        visible = self.rule.visible(i, query_bucket, j, key_bucket)
        if self.rule.latest is not None:
            m = self.rule.chunk
            distance = torch.arange(m, 2 * m, device=i.device)[:, None] - torch.arange(2 * m, device=i.device)
            visible = visible & (distance >= 0) & (distance <= self.rule.latest)
        if not self.rule.alone:
            return visible, torch.zeros_like(visible[..., :1])
        alone = ~visible.any(-1, keepdim=True)
        return visible | (alone & (i == j) & (i >= 0)), alone


def chunks_of(q: Tensor, time: Tensor, order: Order, rule: Rule) -> Chunks:
    """The chunks of all orders; the last chunk may have empty slots."""
    (B, H, T), m = q.shape[:3], rule.chunk
    padding = -order.tokens.shape[-1] % m
    tokens, buckets = (pad(x, (0, padding), value=-1).unflatten(-1, (-1, m)) for x in (order.tokens, order.buckets))
    indices = tokens.clamp(min=0)
    times = time[:, None, None, None].expand(*tokens.shape[:4], -1).gather(-1, indices)
    times = torch.where(tokens < 0, -1, times)
    rows = indices + T * torch.arange(B * H, device=q.device).view(B, H, 1, 1, 1)
    last_chunk = (order.used - 1).clamp(min=0) // m if rule.wrap else None

    def of_queries_and_keys(x: Tensor, empty: int | None) -> tuple[Tensor, Tensor]:
        """(B, H, N, C, m) for the slots of queries (G, m), and for the slots that they attend to (G, M)."""
        keys = _with_chunk_before(x, empty, last_chunk) if rule.back else x
        return x.flatten(0, 3), keys.flatten(0, 3)

    return Chunks(
        rule,
        *of_queries_and_keys(rows, None),
        of_queries_and_keys(times.to(torch.int32), -1),
        of_queries_and_keys(buckets.to(torch.int32), -1),
    )


def _with_chunk_before(x: Tensor, empty: int | None, last_chunk: Tensor | None) -> Tensor:
    """(B, H, N, C, 2m): the slots of the previous chunk, then those of the chunk itself.

    The first chunk is preceded by slots with the value `empty`, or, without it, by its own slots, so that rows do not
    mix. With `last_chunk` (B,) it is preceded by that chunk of its row, unless this is the first chunk itself.
    """
    before_first = x[:, :, :, :1] if empty is None else torch.full_like(x[:, :, :, :1], empty)
    if last_chunk is not None:
        index = last_chunk.view(-1, 1, 1, 1, 1)
        before_first = torch.where(index > 0, x.gather(3, index.expand(*x.shape[:3], 1, x.shape[4])), before_first)
    return torch.cat([torch.cat([before_first, x[:, :, :, :-1]], 3), x], 4)
