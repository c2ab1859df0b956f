"""The walk of `averages` on a GPU, by Triton (gpu_kernels.py): many rows and channels at once, token by token.

They are two operators of torch, which a compiled model calls unchanged.
"""

import torch
from torch import Tensor

from seqloom.ops.autograd import GPU
from seqloom.ops.gpu import blocks
from seqloom.ops.wkv_average import averages

BLOCK = 32
"""channels of a program, one for each thread of a warp"""
STAGES = 4
"""tokens that are loaded from memory in advance"""


def _forward(
    k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `averages.Walk`; float32 or float64."""
    from seqloom.ops.wkv_average import gpu_kernels

    B, T, D = k.shape
    y, means, logs = k.new_empty(B, T, D), k.new_empty(B, T + 1, D), k.new_empty(B, T + 1, D)
    inputs = (tensor.contiguous() for tensor in (k, v, *_weights(k, w, u), mean, log))
    with torch.cuda.device_of(k):
        gpu_kernels.forward[B, blocks(D, BLOCK)](*inputs, y, means, logs, T, D, BLOCK, STAGES, num_warps=1)
    return y, means, logs


def _backward(
    k: Tensor,
    v: Tensor,
    w: Tensor | None,
    u: Tensor | None,
    means: Tensor,
    logs: Tensor,
    dy: Tensor,
    dmeans: Tensor | None,
    dlogs: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    from seqloom.ops.wkv_average import gpu_kernels

    (B, T, D), dk, dv = k.shape, k.new_empty(k.shape), v.new_empty(v.shape)
    dw, du = (k.new_empty(B, D, dtype=torch.float64) for _ in range(2))
    M, N = k.new_empty(B, D), k.new_empty(B, D)
    # a missing gradient is not read, so any tensor may be passed for it
    optional = (dy if grads is None else grads for grads in (dmeans, dlogs))
    inputs = [tensor.contiguous() for tensor in (k, v, *_weights(k, w, u), means, logs, dy, *optional)]
    has_grads = dmeans is not None, dlogs is not None
    with torch.cuda.device_of(k):
        gpu_kernels.backward[B, blocks(D, BLOCK)](
            *inputs, dk, dv, dw, du, M, N, T, D, *has_grads, BLOCK, STAGES, num_warps=1
        )
    return dk, dv, dw.sum(0).to(k.dtype), du.sum(0).to(k.dtype), M, N


forward = averages.operator("wkv_gpu", _forward, _backward, GPU)


def _weights(k: Tensor, w: Tensor | None, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """w and u (D,), zeros where they are None."""
    zeros = k.new_zeros(k.shape[2])
    return zeros if w is None else w, zeros if u is None else u
