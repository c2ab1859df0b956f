"""The selective scan on a GPU, by Triton (gpu_kernels.py): many rows and channels at once, token by token.

They are two operators of torch, which a compiled model calls unchanged. Forward saves the state before every
32 tokens, and backward recomputes the states between them. Second derivatives are taken through torch's operations.
"""

import torch
from torch import Tensor

from seqloom.ops.autograd import GPU
from seqloom.ops.gpu import blocks, power
from seqloom.ops.scan.selective_scan.inputs import Scan
from seqloom.ops.scan.selective_scan.operator import operator, selective_by

BLOCK, CHUNK = 16, 32
"""channels of a program, and tokens from one saved state to the next"""
STAGES = 3
"""tokens that are loaded from memory in advance"""


def _forward(scan: Scan, learns: bool) -> tuple[Tensor, Tensor, Tensor]:
    """y (B, T, D), the state after the last token (B, D, N), and, if it `learns`, the saved states for `_backward`.

    See `Scan`; float32 or float64.
    """
    from seqloom.ops.scan.selective_scan import gpu_kernels

    u, log_rate, lengths = scan.u, scan.log_rate, scan.lengths
    (B, T, D), N = u.shape, log_rate.shape[1]
    y = u.new_empty(B, T, D) if lengths is None else u.new_zeros(B, T, D)
    new_state, marks = u.new_empty(B, D, N), u.new_empty(_marks(u, log_rate) if learns else 0)
    with torch.cuda.device_of(u):
        gpu_kernels.forward[B, blocks(D, BLOCK)](
            *(u if tensor is None else tensor.contiguous() for tensor in scan),
            *(y, new_state, marks, T, D, N, *(tensor is not None for tensor in scan[5:]), learns),
            *(power(N), BLOCK, CHUNK, STAGES),
            num_warps=1,
        )
    return y, new_state, marks


def _backward(scan: Scan, marks: Tensor, dy: Tensor, dnew_state: Tensor | None) -> tuple[Tensor, ...]:
    """Gradients of u, delta, log_rate, b, c, the state, bias, skip and gate."""
    from seqloom.ops.scan.selective_scan import gpu_kernels

    u, delta, log_rate, b, c, _, bias, skip, gate, lengths = scan
    (B, T, D), N = u.shape, log_rate.shape[1]
    allocate = u.new_empty if lengths is None else u.new_zeros  # gradients after the end of a row are 0
    du, ddelta, dgate = allocate(B, T, D), allocate(B, T, D), allocate((B, T, D) if gate is not None else (0,))
    db_and_dc, dstate = allocate(2, blocks(D, BLOCK), B, T, N), u.new_empty(B, D, N)
    dA, dbias, dskip = (u.new_empty(B, *sizes, dtype=torch.float64) for sizes in ((D, N), (D,), (D,)))
    scratch, optional = u.new_empty(B, CHUNK, D, N), (bias, skip, gate, lengths)
    inputs = (u, delta, log_rate, b, c, *optional, marks, dy, dnew_state)
    with torch.cuda.device_of(u):
        gpu_kernels.backward[B, blocks(D, BLOCK)](
            *(u if tensor is None else tensor.contiguous() for tensor in inputs),
            *(scratch, du, ddelta, dA, *db_and_dc, dstate, dbias, dskip, dgate, T, D, N),
            *(tensor is not None for tensor in (*optional, dnew_state)),
            *(power(N), BLOCK, CHUNK, STAGES),
            num_warps=1,
        )
    dA, dbias, dskip = (tensor.sum(0).to(u.dtype) for tensor in (dA, dbias, dskip))
    db, dc = (tensor.sum(0) for tensor in db_and_dc)
    return du, ddelta, dA * -log_rate.exp(), db, dc, dstate, dbias, dskip, dgate


def _marks(u: Tensor, log_rate: Tensor) -> tuple[int, int, int, int]:
    """The shape of the saved states, one for each chunk."""
    return len(u), blocks(u.shape[1], CHUNK), u.shape[2], log_rate.shape[1]


forward = operator("selective_gpu", _forward, _backward, _marks, GPU)
selective = selective_by(forward)
