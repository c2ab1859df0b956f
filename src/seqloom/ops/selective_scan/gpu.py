"""The selective scan on a GPU, by Triton (gpu_kernels.py): many rows and channels at once, token by token.

Two operators of torch, so that a compiled model holds them as they are. Forward keeps the state at the beginning of
every 32 tokens, backward computes those between anew. Second derivatives go through the equation's own operations.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.ops.gpu import blocks, power
from seqloom.ops.selective_scan import walks

BLOCK, CHUNK = 16, 32
"""channels of a program, and tokens from one state that is kept to the next"""
STAGES = 3
"""tokens that are on their way from memory at once"""


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
    """See `walks.selective`; float32 or float64."""
    of = (u, delta, log_rate, b, c, state, bias, skip, gate)
    learns = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in of)
    y, after, _ = forward(*of, lengths, learns)
    return y, after


@torch.library.custom_op("seqloom::selective_gpu_forward", mutates_args=(), device_types=("cuda", "cpu"))
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
    from seqloom.ops.selective_scan import gpu_kernels

    (B, T, D), N = u.shape, log_rate.shape[1]
    y = u.new_empty(B, T, D) if lengths is None else u.new_zeros(B, T, D)
    after, marks = u.new_empty(B, D, N), u.new_empty((B, blocks(T, CHUNK), D, N) if learns else 0)
    around = (state, bias, skip, gate, lengths)
    with torch.cuda.device_of(u):
        gpu_kernels.forward[B, blocks(D, BLOCK)](
            *(u if each is None else each.contiguous() for each in (u, delta, log_rate, b, c, *around)),
            *(y, after, marks, T, D, N, *(each is not None for each in around), learns),
            *(power(N), BLOCK, CHUNK, STAGES),
            num_warps=1,
        )
    return y, after, marks


@torch.library.custom_op("seqloom::selective_gpu_backward", mutates_args=(), device_types=("cuda", "cpu"))
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
    from seqloom.ops.selective_scan import gpu_kernels

    (B, T, D), N = u.shape, log_rate.shape[1]
    new = u.new_empty if lengths is None else u.new_zeros  # nothing reaches what is behind the end of a row
    du, ddelta, dgate = new(B, T, D), new(B, T, D), new((B, T, D) if gate is not None else (0,))
    parts, dstate = new(2, blocks(D, BLOCK), B, T, N), u.new_empty(B, D, N)
    dA, dbias, dskip = (u.new_empty(B, *of, dtype=torch.float64) for of in ((D, N), (D,), (D,)))
    scratch, around = u.new_empty(B, CHUNK, D, N), (bias, skip, gate, lengths)
    given = (u, delta, log_rate, b, c, *around, marks, dy, dafter)
    with torch.cuda.device_of(u):
        gpu_kernels.backward[B, blocks(D, BLOCK)](
            *(u if each is None else each.contiguous() for each in given),
            *(scratch, du, ddelta, dA, *parts, dstate, dbias, dskip, dgate, T, D, N),
            *(each is not None for each in (*around, dafter)),
            *(power(N), BLOCK, CHUNK, STAGES),
            num_warps=1,
        )
    to_A, to_bias, to_skip = (each.sum(0).to(u.dtype) for each in (dA, dbias, dskip))
    db, dc = (each.sum(0) for each in parts)
    return du, ddelta, to_A * -log_rate.exp(), db, dc, dstate, to_bias, to_skip, dgate


@forward.register_fake
def _forward_shapes(
    u: Tensor, delta: Tensor, log_rate: Tensor, b: Tensor, c: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    (B, T, D), N = u.shape, log_rate.shape[1]
    marks = (B, blocks(T, CHUNK), D, N) if rest[-1] else (0,)
    return u.new_empty(B, T, D), u.new_empty(B, D, N), u.new_empty(marks)


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
    slope = torch.zeros_like(u) if dy is None else dy
    if torch.is_grad_enabled():
        return (*walks.gradients(of, lengths, slope, dafter), None, None)
    found = _backward(u, delta, log_rate, b, c, bias, skip, gate, lengths, marks, slope, dafter)
    return (*(None if each is None else grad for each, grad in zip(of, found, strict=True)), None, None)


forward.register_autograd(_gradients, setup_context=_save)
