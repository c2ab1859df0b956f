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
    chunks, flat = laid(q, time, order, rule), [x.flatten(0, 2) for x in (q, k, v)]
    visible, alone = chunks.masks(slice(None))
    keys = [x.index_select(0, chunks.keys.flatten()).unflatten(0, chunks.keys.shape) for x in flat[1:]]
    z = flat[0].index_select(0, chunks.queries.flatten()).unflatten(0, chunks.queries.shape) @ keys[0].mT
    z = z.to(torch.promote_types(z.dtype, torch.float32)).masked_fill(~visible, -torch.inf)
    top = z.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(z.dtype).min)
    e = (z - top).exp()
    y = (e.to(v.dtype) @ keys[1]).to(e.dtype)
    y, total, _, _ = joined(chunks, y, e.sum(-1), top[..., 0], alone[..., 0], len(flat[0]))
    return (y / total.masked_fill(total == 0, 1.0)).to(v.dtype).view_as(v)


def joined(
    chunks: "Chunks", y: Tensor, total: Tensor, top: Tensor, alone: Tensor, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Joins the sums of the slots of each token.

    Given are sums of values (G, m, V) and of exponentials (G, m), divided by e^top. Returned are both sums and the
    maxima for each of `rows` tokens, and a mask (G, m) of hidden slots: a slot that attended only to its own token is
    hidden unless all slots of the token did.
    """
    token, with_others = chunks.queries.flatten(), (~alone & chunks.real).flatten()
    with torch.no_grad():
        has_others = torch.zeros(rows, dtype=torch.long, device=y.device).index_add_(0, token, with_others.long()) > 0
        hidden = ~chunks.real.flatten() | (alone.flatten() & has_others[token])
        lowest = torch.finfo(y.dtype).min
        top = top.flatten().masked_fill(hidden, lowest)
        highest = torch.full((rows,), lowest, dtype=y.dtype, device=y.device).scatter_reduce(0, token, top, "amax")
        weight = (top - highest[token]).exp().masked_fill(hidden, 0.0)
    values = torch.zeros(rows, y.shape[-1], dtype=y.dtype, device=y.device).index_add(
        0, token, y.flatten(0, 1) * weight[:, None]
    )
    sums = torch.zeros(rows, dtype=y.dtype, device=y.device).index_add(0, token, total.flatten() * weight)
    return values, sums[:, None], highest[:, None], hidden.view_as(chunks.queries)


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
        """For some chunks, which slots see which, and which slots see only their own token."""
        i, of_i = self.times[0][index, :, None], self.buckets[0][index, :, None]
        j, of_j = self.times[1][index, None], self.buckets[1][index, None]
        visible = self.rule.visible(i, of_i, j, of_j)
        if self.rule.latest is not None:
            m = self.rule.chunk
            distance = torch.arange(m, 2 * m, device=i.device)[:, None] - torch.arange(2 * m, device=i.device)
            visible = visible & (distance >= 0) & (distance <= self.rule.latest)
        if not self.rule.alone:
            return visible, torch.zeros_like(visible[..., :1])
        alone = ~visible.any(-1, keepdim=True)
        return visible | (alone & (i == j) & (i >= 0)), alone


def laid(q: Tensor, time: Tensor, order: Order, rule: Rule) -> Chunks:
    """The chunks of all orders; the last chunk may have empty slots."""
    (B, H, T), m = q.shape[:3], rule.chunk
    more = -order.tokens.shape[-1] % m
    tokens, buckets = (pad(x, (0, more), value=-1).unflatten(-1, (-1, m)) for x in (order.tokens, order.buckets))
    indices = tokens.clamp(min=0)
    times = time[:, None, None, None].expand(*tokens.shape[:4], -1).gather(-1, indices)
    times = torch.where(tokens < 0, -1, times)
    rows = indices + T * torch.arange(B * H, device=q.device).view(B, H, 1, 1, 1)
    last = (order.used - 1).clamp(min=0) // m if rule.wrap else None
    pairs = [
        (x.flatten(0, 3), _before(x, nothing, last).flatten(0, 3) if rule.back else x.flatten(0, 3))
        for x, nothing in ((rows, None), (times.to(torch.int32), -1), (buckets.to(torch.int32), -1))
    ]
    return Chunks(rule, *pairs[0], *pairs[1:])


def _before(x: Tensor, nothing: int | None, last: Tensor | None) -> Tensor:
    """(B, H, N, C, 2m): the slots of the previous chunk, then those of the chunk itself.

    The first chunk is preceded by slots with the value `nothing`, or, without it, by its own slots, so that rows do not
    mix. With `last` (B,) it is preceded by that chunk of its row, unless this is the first chunk itself.
    """
    first = x[:, :, :, :1] if nothing is None else torch.full_like(x[:, :, :, :1], nothing)
    if last is not None:
        wrapped = x.gather(3, last.view(-1, 1, 1, 1, 1).expand(*x.shape[:3], 1, x.shape[4]))
        first = torch.where(last.view(-1, 1, 1, 1, 1) > 0, wrapped, first)
    return torch.cat([torch.cat([first, x[:, :, :, :-1]], 3), x], 4)
