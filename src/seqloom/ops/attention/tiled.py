"""Softmax attention over the tiles of a plan, as one differentiable function; `loops` computes the tiles."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from seqloom.core.recording import keep
from seqloom.ops.attention.plan import Part


@runtime_checkable
class Loops(Protocol):
    """A module that computes the tiles of a part: `portable` or `native`."""

    def average(self, q: Tensor, k: Tensor, v: Tensor, part: Part, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries (B, N b, H, K), keys and values (B, M c, H, ·) → y (B, N b, H, V), log Σ_j e^{z_ij} (B, H, N b).

        The logarithm of a query that sees no key is -inf, its y 0.
        """

    def gradients(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        dy: Tensor,
        log_sum: Tensor,
        delta: Tensor,
        part: Part,
        lengths: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of q, k and v; `log_sum` (B, H, N b) is inf where a query sees no key, `delta` is Σ dy y."""


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
            y, log_sum = _forward(q, k, v, lengths, parts[0], loops)
            for part in parts[1:]:
                y, log_sum = join_averages(y, log_sum, *_forward(q, k, v, lengths, part, loops))
        ctx.save_for_backward(q, k, v, y, log_sum, lengths)
        ctx.parts, ctx.loops = parts, loops
        return y.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of sparse_attention over tiles are not implemented: force 'masked'")
        q, k, v, y, log_sum, lengths = ctx.saved_tensors
        T, dy = q.shape[1], dy.transpose(1, 2).contiguous()
        # e^(z - inf) is 0, so that a query that sees no key has no gradient
        log_sum = log_sum.masked_fill(log_sum == -torch.inf, torch.inf)
        pieces = zip(dy.split(1024, 1), y.split(1024, 1), strict=True)
        delta = torch.cat([(dy_piece * y_piece).sum(-1) for dy_piece, y_piece in pieces], 1)
        delta = delta.transpose(1, 2)  # (B, H, T)
        grads: list[Tensor] = []
        with torch.autocast(q.device.type, enabled=False):
            for part in ctx.parts:
                query_time, key_time = part.queries, part.keys
                times_of_inputs = ((q, query_time), (k, key_time), (v, key_time), (dy, query_time))
                blocks = (gather_blocks(x, times, 1) for x, times in times_of_inputs)
                sums = (gather_blocks(x, query_time, 2) for x in (log_sum, delta))
                block_grads = ctx.loops.gradients(*blocks, *sums, part, lengths)
                times_of_grads = zip(block_grads, (query_time, key_time, key_time), strict=True)
                part_grads = [order_by_time(dx, times, T, 1) for dx, times in times_of_grads]
                grads = [a.add_(b) for a, b in zip(grads, part_grads, strict=True)] if grads else part_grads
        return *(dx.transpose(1, 2) for dx in grads), None, None, None


def _forward(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, part: Part, loops: Loops
) -> tuple[Tensor, Tensor]:
    """The average y (B, T, H, V) over the keys of one part of the pattern, and log Σ_j e^{z_ij} (B, H, T)."""
    blocks = gather_blocks(q, part.queries, 1), gather_blocks(k, part.keys, 1), gather_blocks(v, part.keys, 1)
    y, log_sum = loops.average(*blocks, part, lengths)
    return order_by_time(y, part.queries, q.shape[1], 1), order_by_time(
        log_sum, part.queries, q.shape[1], 2, -torch.inf
    )


def join_averages(y: Tensor, log_sum: Tensor, other: Tensor, other_log_sum: Tensor) -> tuple[Tensor, Tensor]:
    """The average (B, T, H, V) over the keys of two averages, and its logarithm (B, H, T), from those of both."""
    joint_log_sum = torch.logaddexp(log_sum, other_log_sum)

    def share(log_sum: Tensor) -> Tensor:  # (B, T, H, 1), 0 where no key is seen
        return torch.nan_to_num(torch.exp(log_sum - joint_log_sum)).mT[..., None]

    return (y * share(log_sum)).addcmul_(other, share(other_log_sum)), joint_log_sum


def gather_blocks(x: Tensor, times: Tensor, axis: int) -> Tensor:
    """The entries of x at `times` (N, b) along an axis, 0 where a time is -1.

    Returns x itself if `times` are 0, 1, …, T - 1.
    """
    T = x.shape[axis]
    order = keep(_order(times, T, x.device))
    if order.is_time and times.numel() == T:
        return x
    if order.full:
        return x.index_select(axis, order.index)
    shape = list(x.shape)
    shape[axis] = 1
    return torch.cat([x, x.new_zeros(shape)], axis).index_select(axis, order.index)


def order_by_time(blocks: Tensor, times: Tensor, T: int, axis: int, empty: float = 0.0) -> Tensor:
    """The inverse of `gather_blocks`: values of blocks in the order of time, `empty` at times that are in no block."""
    order = keep(_order(times, T, blocks.device))
    if order.is_time:
        return blocks.narrow(axis, 0, T)
    if order.full and times.numel() == T:
        return blocks.new_empty(blocks.shape).index_copy_(axis, order.index, blocks)
    shape = list(blocks.shape)
    shape[axis] = T + 1  # empty slots are written to an entry behind the last
    return blocks.new_full(shape, empty).index_copy_(axis, order.index, blocks).narrow(axis, 0, T)


@final
@dataclass(frozen=True)
class _Order:
    """The times of blocks, flat."""

    index: Tensor
    """on the device of what is put into this order; T for an empty slot"""
    is_time: bool
    """whether the first T are 0, 1, …, T - 1"""
    full: bool
    """whether no slot is empty"""


@lru_cache(maxsize=256)
def _order(times: Tensor, T: int, device: torch.device) -> _Order:
    """The order of times (N, b), computed and copied to the device once: a captured step could do neither."""
    flat = times.flatten()
    is_time = len(flat) >= T and bool((flat[:T] == torch.arange(T)).all())
    return _Order(torch.where(flat < 0, T, flat).to(device), is_time, int(flat.min()) >= 0)
