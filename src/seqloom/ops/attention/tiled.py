"""Softmax attention over the tiles of a plan, as one differentiable function; `loops` computes the tiles."""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.attention.plan import Part


class Loops(Protocol):
    """How the tiles of a part are computed: `portable` and `native` are such modules."""

    def average(
        self, q: Tensor, k: Tensor, v: Tensor, part: Part, lengths: Tensor | None, H: int
    ) -> tuple[Tensor, Tensor]:
        """Blocks of queries, keys and values → y (P, N, b, V) and log Σ_j e^{z_ij} (P, N, b, 1), -inf for no key."""

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
        H: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Those of the blocks; `log` is inf where a query looks at nothing, `delta` is Σ dy y."""


def attend(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, parts: tuple[Part, ...], loops: Any) -> Tensor:
    """(B, H, T, K), (B, H, T, K), (B, H, T, V), keys of each row (B,) or all, the parts of a pattern → (B, H, T, V)."""
    wide = torch.promote_types(q.dtype, torch.float32)
    y: Tensor = _Tiled.apply(q.to(wide), k.to(wide), v.to(wide), lengths, parts, loops)  # type: ignore[no-untyped-call]
    return y.to(q.dtype)


class _Tiled(torch.autograd.Function):
    """(q, k, v, lengths, parts, loops) → y, see `attend`."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, parts: tuple[Part, ...], loops: Loops
    ) -> Tensor:
        q, k, v = (x.new_empty(x.shape).copy_(x) for x in (q, k, v))  # heads without gaps: what backward reads, too
        q.mul_(q.shape[-1] ** -0.5)
        with torch.autocast(q.device.type, enabled=False):
            y, log = _forward(q, k, v, lengths, parts[0], loops)
            for part in parts[1:]:
                y, log = joined(y, log, *_forward(q, k, v, lengths, part, loops))
        ctx.save_for_backward(q, k, v, y, log, lengths)
        ctx.parts, ctx.loops = parts, loops
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of sparse_attention over tiles are not implemented: force 'masked'")
        q, k, v, y, log, lengths = ctx.saved_tensors
        log = log.masked_fill(log == -torch.inf, torch.inf)  # e^(z - log) is 0 where nothing is looked at
        dy = dy.contiguous()
        heads = zip(dy.flatten(0, 1), y.flatten(0, 1), strict=True)
        delta = torch.stack([(one * other).sum(-1, keepdim=True) for one, other in heads]).view_as(log)
        found: list[Tensor] = []
        with torch.autocast(q.device.type, enabled=False):
            for part in ctx.parts:
                times = (part.queries, part.keys, part.keys, part.queries, part.queries, part.queries)
                blocks = [blocked(x, t) for x, t in zip((q, k, v, dy, log, delta), times, strict=True)]
                slopes = ctx.loops.gradients(*blocks, part, lengths, q.shape[1])
                ones = [timed(dx, t, q.shape[2]) for dx, t in zip(slopes, times, strict=False)]
                found = [a.add_(b) for a, b in zip(found, ones, strict=True)] if found else ones
        found[0].mul_(q.shape[-1] ** -0.5)
        return *(dx.reshape(x.shape) for dx, x in zip(found, (q, k, v), strict=True)), None, None, None


def _forward(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, part: Part, loops: Loops
) -> tuple[Tensor, Tensor]:
    B, H, T, _ = q.shape
    blocks = blocked(q, part.queries), blocked(k, part.keys), blocked(v, part.keys)
    y, log = loops.average(*blocks, part, lengths, H)
    y, log = timed(y, part.queries, T), timed(log, part.queries, T, -torch.inf)
    return y.unflatten(0, (B, H)), log.unflatten(0, (B, H))


def joined(y: Tensor, log: Tensor, other: Tensor, other_log: Tensor) -> tuple[Tensor, Tensor]:
    """Two averages over keys that they do not share, with the logarithms (…, 1) of their sums, as one."""
    both = torch.logaddexp(log, other_log)
    ours, theirs = (torch.nan_to_num(torch.exp(each - both)) for each in (log, other_log))
    return y * ours + other * theirs, both


def blocked(x: Tensor, times: Tensor) -> Tensor:
    """The tokens of (B, H, T, K) at these times (N, b), 0 at -1: (B H, N, b, K)."""
    (N, b), T = times.shape, x.shape[2]
    x = x.flatten(0, 1)
    if _in_order(times, T):
        return pad(x, (0, 0, 0, N * b - T)).reshape(len(x), N, b, x.shape[2])
    chosen = torch.where(times < 0, T, times).flatten().to(x.device)
    return pad(x, (0, 0, 0, 1)).index_select(1, chosen).view(len(x), N, b, x.shape[2])


def timed(blocks: Tensor, times: Tensor, T: int, empty: float = 0.0) -> Tensor:
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
