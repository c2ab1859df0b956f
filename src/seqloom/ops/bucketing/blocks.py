"""Computes a few chunks at a time, so that their scores fit into the cache; the backward pass recomputes them.

In an order by (bucket, time) the slots that a slot attends to are consecutive. So masks are computed by arithmetic on
floats, which on a CPU is several times faster in torch than comparisons. In the code:

    e_ss' = e^{z_ss'} clip(1 + reach_s - |s' - center_s|, 0, 1)
    a_ss' = e^{z_ss' - ℓ_i},   dz = a (dy_i · v - dy_i · y_i)        ℓ_i and y_i are over all slots of token i
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.ops.bucketing.chunks import Chunks, chunks_of, join_slots
from seqloom.ops.bucketing.orders import EMPTY, Order, Rule

SCORES = 1 << 18
"""scores that are computed at a time"""
HIDDEN = 1e30
"""what is subtracted from the scores of hidden keys"""
LOWEST = {torch.float32: -85.0, torch.float64: -700.0}
"""a lower bound of exponents: torch's exponential is 50 times slower where its result is subnormal"""


def supports(rule: Rule) -> bool:
    """Whether the slots that a slot attends to are consecutive."""
    return rule.same and not rule.wrap


def attend(q: Tensor, k: Tensor, v: Tensor, time: Tensor, order: Order, rule: Rule) -> Tensor:
    """See `attend` of the package."""
    wide_dtype = torch.promote_types(q.dtype, torch.float32)
    chunks = chunks_of(q, time, order, rule)
    ranges = _ranges(chunks, wide_dtype)
    rows = (x.to(wide_dtype).flatten(0, 2) for x in (q, k, v))
    y: Tensor = _Blocks.apply(*rows, chunks, ranges)  # type: ignore[no-untyped-call]  # torch does not type it
    return y.to(v.dtype).view_as(v)


@final
@dataclass(frozen=True)
class Ranges:
    """Which slots of its window a slot attends to: those at most `reach` away from `center`."""

    center: Float[Tensor, "G m 1"]
    reach: Float[Tensor, "G m 1"]
    alone: Bool[Tensor, "G m"]
    """whether the slot attends only to its own token"""
    own_key: Float[Tensor, "G m"] | None
    """0 where a slot does not attend to its own key because it has others, else 1; None if `reach` leaves it out"""
    slots: Float[Tensor, " M"]
    """0, 1, …, M - 1"""

    def mask(self, index: slice) -> Tensor:
        """(g, m, M): 1 where a slot of these chunks attends to a slot of its window, else 0."""
        mask = (self.slots - self.center[index]).abs_().neg_().add_(self.reach[index] + 1).clamp_(0, 1)
        if self.own_key is not None:
            mask[:, :, mask.shape[2] - mask.shape[1] :].diagonal(dim1=1, dim2=2).mul_(self.own_key[index])
        return mask


def _ranges(chunks: Chunks, dtype: torch.dtype) -> Ranges:
    """The slots from `first` to `last` that each slot attends to, by binary search in the order by (bucket, time)."""
    rule = chunks.rule
    i, j = (times.long() for times in chunks.times)
    query_bucket, key_bucket = (buckets.long() for buckets in chunks.buckets)
    m, M = i.shape[1], j.shape[1]
    codes = torch.where(j < 0, -1, (key_bucket << 40) + j)
    codes[:, M - m :].masked_fill_(i < 0, EMPTY)  # empty slots are the last of an order
    largest_distance = (1 << 40) - 1 if rule.context is None else rule.context - 1
    bucket_start = (query_bucket << 40).contiguous()
    own_slot = torch.arange(M - m, M, device=i.device).expand_as(i)
    codes, i = codes.contiguous(), i.contiguous()
    first = torch.searchsorted(codes, bucket_start + (i - largest_distance).clamp(min=0))
    if rule.latest is not None:
        first = torch.maximum(first, own_slot - rule.latest)
    last = own_slot
    if not rule.causal:
        last_code = bucket_start + (i + largest_distance).clamp(max=(1 << 40) - 1)
        last = torch.searchsorted(codes, last_code, right=True) - 1
    alone, own_key = torch.zeros_like(i, dtype=torch.bool), None
    if rule.alone:
        alone = first == last
        if rule.causal:  # the own key is the last of the range
            last = last - (~alone).long()
        else:
            own_key = alone.to(dtype)
    first, last = (torch.where(i < 0, own_slot, bound) for bound in (first, last))
    center, reach = ((a.to(dtype) / 2)[..., None] for a in (first + last, last - first))
    return Ranges(center, reach, alone, own_key, torch.arange(M, dtype=dtype, device=i.device))


class _Blocks(torch.autograd.Function):
    """q (R, K), k (R, K), v (R, V) of all tokens → y (R, V)."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, chunks: Chunks, ranges: Ranges) -> Tensor:
        G, m = chunks.queries.shape
        values, total, top = v.new_empty(G, m, v.shape[1]), v.new_empty(G, m), v.new_empty(G, m)
        with torch.autocast(q.device.type, enabled=False):
            for index in _chunk_slices(chunks):
                mask = ranges.mask(index)
                z = (_rows(q, chunks.queries[index]) @ _rows(k, chunks.keys[index]).mT).add_(mask - 1, alpha=HIDDEN)
                largest = z.amax(-1, keepdim=True)
                e = z.sub_(largest).clamp_(min=LOWEST[z.dtype]).exp_().mul_(mask)
                torch.bmm(e, _rows(v, chunks.keys[index]), out=values[index])
                total[index], top[index] = e.sum(-1), largest[..., 0]
        value_sums, sums, token_top, hidden = join_slots(chunks, values, total, top, ranges.alone, len(q))
        y = value_sums / sums.masked_fill(sums == 0, 1.0)
        log_sum = (token_top + sums.log())[:, 0][chunks.queries].masked_fill_(hidden, 0.0)  # of each slot's token
        ctx.save_for_backward(q, k, v, y, log_sum)
        # hidden slots attend to nothing
        reach = ranges.reach.masked_fill(hidden[..., None], -float(chunks.keys.shape[1]))
        ctx.chunks, ctx.ranges = chunks, replace(ranges, reach=reach)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of bucketing in blocks are not implemented: force 'chunks'")
        q, k, v, y, log_sum = ctx.saved_tensors
        chunks, delta = ctx.chunks, (dy * y).sum(-1)
        dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            for index in _chunk_slices(chunks):
                query_rows, key_rows = chunks.queries[index], chunks.keys[index]
                queries, keys, slot_dy = _rows(q, query_rows), _rows(k, key_rows), _rows(dy, query_rows)
                mask = ctx.ranges.mask(index)
                z = (queries @ keys.mT).add_(mask - 1, alpha=HIDDEN)
                a = z.sub_(log_sum[index, :, None]).clamp_(min=LOWEST[z.dtype]).exp_().mul_(mask)
                dz = (slot_dy @ _rows(v, key_rows).mT).sub_(delta[query_rows][..., None]).mul_(a)
                dq.index_add_(0, query_rows.flatten(), (dz @ keys).flatten(0, 1))
                dk.index_add_(0, key_rows.flatten(), (dz.mT @ queries).flatten(0, 1))
                dv.index_add_(0, key_rows.flatten(), (a.mT @ slot_dy).flatten(0, 1))
        return dq, dk, dv, None, None


def _chunk_slices(chunks: Chunks) -> Iterator[slice]:
    """Yields the slices of a few chunks at a time."""
    count = max(1, SCORES // (chunks.queries.shape[1] * chunks.keys.shape[1]))
    for first in range(0, len(chunks.queries), count):
        yield slice(first, first + count)


def _rows(x: Tensor, rows: Tensor) -> Tensor:
    """The rows of x (R, K) at these indices (g, m): (g, m, K)."""
    return x.index_select(0, rows.flatten()).unflatten(0, rows.shape)
