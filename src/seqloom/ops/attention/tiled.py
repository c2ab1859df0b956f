"""Softmax attention over the tiles of a plan, as one differentiable function; `loops` computes the tiles."""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from seqloom.ops.attention.plan import Part


@runtime_checkable
class Loops(Protocol):
    """A module that computes the tiles of a part: `portable` or `native`."""

    def average(self, q: Tensor, k: Tensor, v: Tensor, part: Part, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries (B, N b, H, K), keys, values → y (B, N b, H, V), log Σ_j e^{z_ij} (B, H, N b), -inf without a key."""

    def gradients(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        dy: Tensor,
        log: Tensor,
        delta: Tensor,
        part: Part,
        lengths: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of q, k and v; `log` is inf where a query sees no key, `delta` (B, H, N b) is Σ dy y."""


def attend(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, parts: tuple[Part, ...], loops: Any) -> Tensor:
    """(B, H, T, K), (B, H, T, K), (B, H, T, V), keys of each row (B,) or all, the parts of a pattern → (B, H, T, V)."""
    wide = torch.promote_types(q.dtype, torch.float32)
    y: Tensor = _Tiled.apply(q.to(wide), k.to(wide), v.to(wide), lengths, parts, loops)  # type: ignore[no-untyped-call]
    return y.to(q.dtype)


class _Tiled(torch.autograd.Function):
    """(q, k, v, lengths, parts, loops) → y, see `attend`. Inside, the layout is (B, T, H, K)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, parts: tuple[Part, ...], loops: Loops
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            y, log = _forward(q, k, v, lengths, parts[0], loops)
            for part in parts[1:]:
                y, log = joined(y, log, *_forward(q, k, v, lengths, part, loops))
        ctx.save_for_backward(q, k, v, y, log, lengths)
        ctx.parts, ctx.loops = parts, loops
        return y.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of sparse_attention over tiles are not implemented: force 'masked'")
        q, k, v, y, log, lengths = ctx.saved_tensors
        T, dy = q.shape[1], dy.transpose(1, 2).contiguous()
        log = log.masked_fill(log == -torch.inf, torch.inf)  # so that e^(z - log) is 0 for queries that see no key
        pieces = zip(dy.split(1024, 1), y.split(1024, 1), strict=True)
        delta = torch.cat([(part * other).sum(-1) for part, other in pieces], 1).transpose(1, 2)  # (B, H, T)
        found: list[Tensor] = []
        with torch.autocast(q.device.type, enabled=False):
            for part in ctx.parts:
                of_q, of_k = part.queries, part.keys
                blocks = (blocked(x, times, 1) for x, times in ((q, of_q), (k, of_k), (v, of_k), (dy, of_q)))
                sums = (blocked(x, of_q, 2) for x in (log, delta))
                slopes = ctx.loops.gradients(*blocks, *sums, part, lengths)
                more = [timed(dx, times, T, 1) for dx, times in zip(slopes, (of_q, of_k, of_k), strict=True)]
                found = [a.add_(b) for a, b in zip(found, more, strict=True)] if found else more
        return *(dx.transpose(1, 2) for dx in found), None, None, None


def _forward(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, part: Part, loops: Loops
) -> tuple[Tensor, Tensor]:
    blocks = blocked(q, part.queries, 1), blocked(k, part.keys, 1), blocked(v, part.keys, 1)
    y, log = loops.average(*blocks, part, lengths)
    return timed(y, part.queries, q.shape[1], 1), timed(log, part.queries, q.shape[1], 2, -torch.inf)


def joined(y: Tensor, log: Tensor, other: Tensor, other_log: Tensor) -> tuple[Tensor, Tensor]:
    """Joins two averages (B, T, H, V) over different keys, given the logarithms of their sums of exponentials."""
    joint_log = torch.logaddexp(log, other_log)
    share, other_share = (torch.nan_to_num(torch.exp(part - joint_log)).mT[..., None] for part in (log, other_log))
    return (y * share).addcmul_(other, other_share), joint_log


def blocked(x: Tensor, times: Tensor, axis: int) -> Tensor:
    """The entries of x at `times` (N, b) along an axis, 0 where a time is -1.

    X itself if `times` are 0, 1, …, T - 1.
    """
    T, flat = x.shape[axis], times.flatten()
    if len(flat) == T and _in_order(flat, T):
        return x
    if int(flat.min()) >= 0:
        return x.index_select(axis, flat.to(x.device))
    shape = list(x.shape)
    shape[axis] = 1
    return torch.cat([x, x.new_zeros(shape)], axis).index_select(axis, torch.where(flat < 0, T, flat).to(x.device))


def timed(blocks: Tensor, times: Tensor, T: int, axis: int, empty: float = 0.0) -> Tensor:
    """The inverse of `blocked`: values of blocks in the order of time, `empty` at times that are in no block."""
    flat = times.flatten()
    if _in_order(flat, T):
        return blocks.narrow(axis, 0, T)
    if len(flat) == T and int(flat.min()) >= 0:
        return blocks.new_empty(blocks.shape).index_copy_(axis, flat.to(blocks.device), blocks)
    shape = list(blocks.shape)
    shape[axis] = T + 1
    chosen = torch.where(flat < 0, T, flat).to(blocks.device)
    return blocks.new_full(shape, empty).index_copy_(axis, chosen, blocks).narrow(axis, 0, T)


def _in_order(times: Tensor, T: int) -> bool:
    return len(times) >= T and bool((times[:T] == torch.arange(T)).all())
