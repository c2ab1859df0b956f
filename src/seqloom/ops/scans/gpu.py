"""The recurrence on a GPU, by Triton (gpu_kernels.py): many rows and channels at once, token by token.

Two operators of torch, so that a compiled model holds them as they are.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.ops.gpu import blocks
from seqloom.ops.scans import recurrence

BLOCK = 32
"""channels of a program, one for each thread of a warp"""
STAGES = 4
"""tokens that are on their way from memory at once"""


@torch.library.custom_op("seqloom::scan_gpu_forward", mutates_args=(), device_types=("cuda", "cpu"))
def forward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`; float32 or float64, complex64 or complex128."""
    h = _like(b)
    _launch("forward", a, (a, b, state), (h,))
    return h


@torch.library.custom_op("seqloom::scan_gpu_backward", mutates_args=(), device_types=("cuda", "cpu"))
def _backward(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.promote_types(a.dtype, torch.float64)  # one a adds up over all tokens
    da = h.new_empty(state.shape, dtype=wide) if a.ndim == 1 else _like(h)
    db, dstate = _like(h), _like(state)
    _launch("backward", a, (a, h, state, dh), (da, db, dstate))
    return (da.sum(0).to(a.dtype) if a.ndim == 1 else da), db, dstate


@forward.register_fake
def _forward_shapes(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    return _like(b)


@_backward.register_fake
def _backward_shapes(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _like(a), _like(h), _like(state)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output, inputs[2])


def _gradients(ctx: Any, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a, h, state = ctx.saved_tensors
    if torch.is_grad_enabled():
        return recurrence.gradients(forward, a, h, state, dh)
    return _backward(a, h, state, dh)


forward.register_autograd(_gradients, setup_context=_save)


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _launch(name: str, a: Tensor, given: tuple[Tensor, ...], out: tuple[Tensor, ...]) -> None:
    from seqloom.ops.scans import gpu_kernels

    B, T, N = given[1].shape
    whole = (each.resolve_conj().resolve_neg().contiguous() for each in given)
    held = (torch.view_as_real(each) if each.is_complex() else each for each in (*whole, *out))
    with torch.cuda.device_of(a):
        getattr(gpu_kernels, name)[B, blocks(N, BLOCK)](
            *held, T, N, a.ndim == 1, a.is_complex(), BLOCK, STAGES, num_warps=1
        )
