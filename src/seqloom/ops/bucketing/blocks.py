"""A few chunks at a time, so that their scores stay in the cache; the backward forms them again.

In an order by (bucket, time) the slots that a slot looks at follow each other, so that a mask is arithmetic on floats,
several times faster than comparisons in torch on a CPU:

    z_ss' ← q · k - ∞ [|s' - center_s| > reach_s]
    a_ss' = e^{z_ss' - ℓ_i},   dz = a (dy_i · v - dy_i · y_i)        ℓ_i of all slots of token i, and so y_i
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.ops.bucketing.chunks import Chunks, joined, laid
from seqloom.ops.bucketing.orders import EMPTY, Order, Rule

SCORES = 1 << 18
"""scores that are formed at a time"""
NEVER = -1e30
"""added to a score, once or more"""


def able(rule: Rule) -> bool:
    """Whether the slots that a slot looks at follow each other."""
    return rule.same and not rule.wrap


def attend(q: Tensor, k: Tensor, v: Tensor, time: Tensor, order: Order, rule: Rule) -> Tensor:
    """See `attend` of the package."""
    wide = torch.promote_types(q.dtype, torch.float32)
    chunks = laid(q, time, order, rule)
    flat = (x.to(wide).flatten(0, 2) for x in (q, k, v))
    y: Tensor = _Blocks.apply(*flat, chunks, _ranges(chunks, wide))  # type: ignore[no-untyped-call]  # torch leaves it
    return y.to(v.dtype).view_as(v)


@final
@dataclass(frozen=True)
class Ranges:
    """Which slots of its window each slot looks at: those no further than `reach` from `center`."""

    center: Float[Tensor, "G m 1"]
    reach: Float[Tensor, "G m 1"]
    alone: Bool[Tensor, "G m"]
    """whether it looks at its own token alone"""
    itself: Float[Tensor, "G m"] | None
    """added to the score of the token's own key, where that lies among the others"""
    place: Float[Tensor, " M"]

    def masked_(self, z: Tensor, some: slice) -> Tensor:
        """These scores (g, m, M), with others added."""
        never = (self.place - self.center[some]).abs_().sub_(self.reach[some]).clamp_(min=0, max=1).mul_(NEVER)
        z.add_(never)
        if self.itself is not None:
            z[:, :, z.shape[2] - z.shape[1] :].diagonal(dim1=1, dim2=2).add_(self.itself[some])
        return z


def _ranges(chunks: Chunks, dtype: torch.dtype) -> Ranges:
    rule, (i, j, of_i, of_j) = chunks.rule, (x.long() for x in (*chunks.times, *chunks.buckets))
    m, M = i.shape[1], j.shape[1]
    codes = torch.where(j < 0, -1, (of_j << 40) + j)
    codes[:, M - m :].masked_fill_(i < 0, EMPTY)  # empty slots are the last of an order
    far = (1 << 40) - 1 if rule.context is None else rule.context - 1
    bucket, own = of_i << 40, torch.arange(M - m, M, device=i.device).expand_as(i)
    first = torch.searchsorted(codes, bucket + (i - far).clamp(min=0))
    if rule.latest is not None:
        first = torch.maximum(first, own - rule.latest)
    last = (
        own if rule.causal else torch.searchsorted(codes, bucket + (i + far).clamp(max=(1 << 40) - 1), right=True) - 1
    )
    alone, itself = torch.zeros_like(i, dtype=torch.bool), None
    if rule.alone:
        alone = first == last
        last = last - (rule.causal & ~alone).long()
        itself = None if rule.causal else torch.where(alone, 0.0, NEVER).to(dtype)
    first, last = (torch.where(i < 0, own, each) for each in (first, last))
    center, reach = ((a.to(dtype) / 2)[..., None] for a in (first + last, last - first))
    return Ranges(center, reach, alone, itself, torch.arange(M, dtype=dtype, device=i.device))


class _Blocks(torch.autograd.Function):
    """q (R, K), k (R, K), v (R, V) of all tokens → y (R, V)."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, chunks: Chunks, ranges: Ranges) -> Tensor:
        G, m = chunks.queries.shape
        values, total, top = v.new_empty(G, m, v.shape[1]), v.new_empty(G, m), v.new_empty(G, m)
        with torch.autocast(q.device.type, enabled=False):
            for some in _some(chunks):
                z = ranges.masked_(_rows(q, chunks.queries[some]) @ _rows(k, chunks.keys[some]).mT, some)
                highest = z.amax(-1, keepdim=True)
                e = z.sub_(highest).exp_()
                torch.bmm(e, _rows(v, chunks.keys[some]), out=values[some])
                total[some], top[some] = e.sum(-1), highest[..., 0]
        y, sums, highest, hidden = joined(chunks, values, total, top, ranges.alone, len(q))
        y = y / sums.clamp(min=torch.finfo(y.dtype).tiny)
        log = (highest + sums.log())[:, 0][chunks.queries].masked_fill_(hidden, -NEVER)
        ctx.save_for_backward(q, k, v, y, log)
        ctx.chunks, ctx.ranges = chunks, ranges
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of bucketing in blocks are not implemented: force 'chunks'")
        q, k, v, y, log = ctx.saved_tensors
        chunks, delta = ctx.chunks, (dy * y).sum(-1)
        dq, dk, dv = (torch.zeros_like(x) for x in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            for some in _some(chunks):
                of_queries, of_keys = chunks.queries[some], chunks.keys[some]
                queries, keys, wanted = _rows(q, of_queries), _rows(k, of_keys), _rows(dy, of_queries)
                a = ctx.ranges.masked_(queries @ keys.mT, some).sub_(log[some, :, None]).exp_()
                dz = (wanted @ _rows(v, of_keys).mT).sub_(delta[of_queries][..., None]).mul_(a)
                dq.index_add_(0, of_queries.flatten(), (dz @ keys).flatten(0, 1))
                dk.index_add_(0, of_keys.flatten(), (dz.mT @ queries).flatten(0, 1))
                dv.index_add_(0, of_keys.flatten(), (a.mT @ wanted).flatten(0, 1))
        return dq, dk, dv, None, None


def _some(chunks: Chunks) -> Iterator[slice]:
    """A few chunks at a time."""
    count = max(1, SCORES // (chunks.queries.shape[1] * chunks.keys.shape[1]))
    for first in range(0, len(chunks.queries), count):
        yield slice(first, first + count)


def _rows(x: Tensor, rows: Tensor) -> Tensor:
    return x.index_select(0, rows.flatten()).unflatten(0, rows.shape)
