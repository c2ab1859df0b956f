"""The scan in C (scan.c): many channels at once, threads over rows and blocks of channels.

Two operators of torch, so that a compiled model holds them as they are. Forward keeps the state at the beginning of
every 32 tokens, backward computes those between anew. The numbers do not depend on how many threads there are.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.selective_scan import walks
from seqloom.ops.selective_scan.kernels import (
    BLOCK,
    BYTES,
    CHUNK,
    by_token,
    call,
    given,
    pointers,
    sized,
    unseen,
    whole,
)


def selective(
    u: Tensor,
    delta: Tensor,
    log_rate: Tensor,
    b: Tensor,
    c: Tensor,
    state: Tensor | None,
    bias: Tensor | None,
    skip: Tensor | None,
    gate: Tensor | None,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """See `walks.selective`; float32 or float64. Raises ValueError where there is no native code."""
    of = (u, delta, log_rate, b, c, state, bias, skip, gate)
    if unseen(*of):
        return _read(*of, lengths, None)
    learns = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in of)
    y, after, _ = forward(*of, lengths, learns)
    return y, after


@torch.library.custom_op("seqloom::selective_forward", mutates_args=(), device_types="cpu")
def forward(
    u: Tensor,
    delta: Tensor,
    log_rate: Tensor,
    b: Tensor,
    c: Tensor,
    state: Tensor | None,
    bias: Tensor | None,
    skip: Tensor | None,
    gate: Tensor | None,
    lengths: Tensor | None,
    learns: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """y (B, T, D), the state after the last token (B, D, N), and the states that `_backward` begins at, if it `learns`.

    See `selective`.
    """
    marks = u.new_empty(_marks(u, log_rate)) if learns else None
    y, after = _read(u, delta, log_rate, b, c, state, bias, skip, gate, lengths, marks)
    return y, after, u.new_empty(0) if marks is None else marks


@torch.library.custom_op("seqloom::selective_backward", mutates_args=(), device_types="cpu")
def _backward(
    u: Tensor,
    delta: Tensor,
    log_rate: Tensor,
    b: Tensor,
    c: Tensor,
    bias: Tensor | None,
    skip: Tensor | None,
    gate: Tensor | None,
    lengths: Tensor | None,
    marks: Tensor,
    dy: Tensor,
    dafter: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u, delta, log_rate, b, c, the state, bias, skip and gate."""
    (B, T, D), N = u.shape, log_rate.shape[1]
    blocks = -(-D // (BLOCK * BYTES // u.element_size()))
    du, ddelta = u.new_empty(B, T, D), u.new_empty(B, T, D)
    dgate = u.new_empty(0 if gate is None else (B, T, D))
    db, dc = (u.new_empty(B, T, N) for _ in range(2))
    parts = u.new_empty(2, blocks, B, T, N) if blocks > 1 else (db, dc)
    dstate = u.new_zeros(B, D, N) if dafter is None else dafter.clone(memory_format=torch.contiguous_format)
    dA, dbias, dskip = (torch.zeros(B, *of, dtype=torch.float64) for of in ((D, N), (D,), (D,)))
    threads = native.threads(u.numel() * N)
    room = (3 * BLOCK + 4 * CHUNK + 1) * N + 2 * BLOCK + 4 * CHUNK + 32  # ROOM of the C
    scratch = u.new_empty(threads, room * BYTES // u.element_size())
    sizes, held = _laid(threads, u, delta, log_rate, b, c, None, bias, skip, gate, lengths)
    taken = pointers((du, ddelta, dgate, db, dc, dstate, parts[0], parts[1], dA, dbias, dskip))
    call("backward", u, sizes, given(*held), dy.contiguous(), marks, taken, scratch)
    to_A, to_bias, to_skip = (each.sum(0).to(u.dtype) for each in (dA, dbias, dskip))
    return du, ddelta, to_A * -log_rate.exp(), db, dc, dstate, to_bias, to_skip, dgate


@forward.register_fake
def _forward_shapes(
    u: Tensor, delta: Tensor, log_rate: Tensor, b: Tensor, c: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    (B, T, D), N = u.shape, log_rate.shape[1]
    return u.new_empty(B, T, D), u.new_empty(B, D, N), u.new_empty(_marks(u, log_rate) if rest[-1] else 0)


@_backward.register_fake
def _backward_shapes(
    u: Tensor, delta: Tensor, log_rate: Tensor, b: Tensor, c: Tensor, *rest: Tensor | None
) -> tuple[Tensor, ...]:
    (B, T, D), N = u.shape, log_rate.shape[1]
    kept = ((B, T, D), (B, T, D), (D, N), (B, T, N), (B, T, N), (B, D, N), (D,), (D,))
    gate = (B, T, D) if rest[2] is not None else (0,)
    return tuple(u.new_empty(of) for of in (*kept, gate))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:10], output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dy: Tensor | None, dafter: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *of, lengths, marks = ctx.saved_tensors
    u, delta, log_rate, b, c, _, bias, skip, gate = of
    dy = torch.zeros_like(u, memory_format=torch.contiguous_format) if dy is None else dy
    if torch.is_grad_enabled():  # second derivatives go through the equation's own operations
        return (*walks.gradients(of, lengths, dy, dafter), None, None)
    found = _backward(u, delta, log_rate, b, c, bias, skip, gate, lengths, marks, dy, dafter)
    return (*(None if each is None else grad for each, grad in zip(of, found, strict=True)), None, None)


forward.register_autograd(_gradients, setup_context=_save)


def _marks(u: Tensor, log_rate: Tensor) -> tuple[int, int, int, int, int]:
    """A state for each chunk, laid as the C computes it: vectors of channels."""
    lanes = BYTES // u.element_size()
    return len(u), -(-u.shape[1] // CHUNK), -(-u.shape[2] // lanes), log_rate.shape[1], lanes


def _read(
    u: Tensor,
    delta: Tensor,
    log_rate: Tensor,
    b: Tensor,
    c: Tensor,
    state: Tensor | None,
    bias: Tensor | None,
    skip: Tensor | None,
    gate: Tensor | None,
    lengths: Tensor | None,
    marks: Tensor | None,
) -> tuple[Tensor, Tensor]:
    (B, T, D), N = u.shape, log_rate.shape[1]
    y, after, threads = u.new_empty(B, T, D), u.new_empty(B, D, N), native.threads(u.numel() * N)
    sizes, held = _laid(threads, u, delta, log_rate, b, c, state, bias, skip, gate, lengths)
    scratch = u.new_empty(threads, 2 * BLOCK * N * BYTES // u.element_size())
    call("forward", u, sizes, given(*held), y, after, marks, scratch)
    return y, after


def _laid(
    threads: int,
    u: Tensor,
    delta: Tensor,
    log_rate: Tensor,
    b: Tensor,
    c: Tensor,
    state: Tensor | None,
    bias: Tensor | None,
    skip: Tensor | None,
    gate: Tensor | None,
    lengths: Tensor | None,
) -> tuple[Any, list[Tensor | None]]:
    """The sizes as the C takes them, and the tensors as it reads them."""
    u, delta, b, c = (by_token(each) for each in (u, delta, b, c))
    gate = None if gate is None else by_token(gate)
    sizes = sized(
        threads, *u.shape, log_rate.shape[1], *(x.stride(1) for x in (u, delta, b, c, u if gate is None else gate))
    )
    return sizes, [
        u,
        delta,
        whole(log_rate),
        b,
        c,
        whole(state),
        whole(bias),
        whole(skip),
        gate,
        None if lengths is None else whole(lengths.long()),
    ]
