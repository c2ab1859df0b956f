"""The recurrence on a GPU, by Triton (gpu_kernels.py): many rows and channels at once, token by token.

They are two operators of torch, which a compiled model calls unchanged.
"""

import torch
from torch import Tensor

from seqloom.ops.autograd import GPU, Operator, pair_operators
from seqloom.ops.gpu import blocks
from seqloom.ops.scan import recurrence

BLOCK = 32
"""channels of a program, one for each thread of a warp"""
STAGES = 4
"""tokens that are loaded from memory in advance"""


def _forward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`; float32 or float64, complex64 or complex128."""
    h = _like(b)
    _launch("forward", a, (a, b, state), (h,))
    return h


def _backward(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.promote_types(a.dtype, torch.float64)  # the gradient of a constant a is a sum over all tokens
    da = h.new_empty(state.shape, dtype=wide) if a.ndim == 1 else _like(h)
    db, dstate = _like(h), _like(state)
    _launch("backward", a, (a, h, state, dh), (da, db, dstate))
    return (da.sum(0).to(a.dtype) if a.ndim == 1 else da), db, dstate


forward: Operator = pair_operators(
    "scan_gpu",
    _forward,
    _backward,
    shapes=lambda a, b, state: [b.shape],
    gradient_shapes=lambda a, h, state, dh: [a.shape, h.shape, state.shape],
    save=lambda inputs, outputs: (inputs[0], outputs[0], inputs[2]),
    differentiable=lambda *of: recurrence.gradients(forward, *of),
    devices=GPU,
)


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _launch(name: str, a: Tensor, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
    """Runs the kernel of this name; the second input is (B, T, N)."""
    from seqloom.ops.scan import gpu_kernels

    B, T, N = inputs[1].shape
    dense = (tensor.resolve_conj().resolve_neg().contiguous() for tensor in inputs)
    tensors = (torch.view_as_real(tensor) if tensor.is_complex() else tensor for tensor in (*dense, *outputs))
    with torch.cuda.device_of(a):
        getattr(gpu_kernels, name)[B, blocks(N, BLOCK)](
            *tensors, T, N, a.ndim == 1, a.is_complex(), BLOCK, STAGES, num_warps=1
        )
