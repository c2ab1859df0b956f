"""The decaying sum by chunks on a GPU, by Triton (gpu_kernels.py, gpu_slopes.py).

They are two operators of torch, which a compiled model calls unchanged. The precision of products is
that of torch (`torch.set_float32_matmul_precision`). Second derivatives are taken through `chunked`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from seqloom.ops.autograd import GPU, differentiate, pair_operators
from seqloom.ops.gpu import PRECISION, blocks
from seqloom.ops.linear_decay import chunked

CHUNK, WIDE = 64, 32
"""tokens of a chunk, and channels that a program multiplies at once: powers of two, at least 16"""
NARROW = 16
"""tokens and channels in double precision, which needs twice the registers"""


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    y, new_state, _ = forward(q, k, v, g, state)
    return y, new_state


def chunk(dtype: torch.dtype) -> int:
    """Tokens of a chunk."""
    return NARROW if dtype == torch.float64 else CHUNK


def _forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """y, S after the last token, and S before each chunk (B, H, chunks, K, V), all of one type."""
    from seqloom.ops.linear_decay import gpu_kernels

    (B, H, T, K), V, (C, wide) = q.shape, v.shape[3], _sizes(q)
    y, new_state, before = v.new_empty(v.shape), v.new_empty(B, H, K, V), v.new_empty(B, H, blocks(T, C), K, V)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    log_decay, strides = _decay_and_strides(g, q)
    sizes, precise = (H, T, K, V, *strides), PRECISION[torch.get_float32_matmul_precision()]
    first_state = q if state is None else state.contiguous()  # without a state an arbitrary tensor, which is not read
    with torch.cuda.device_of(q):
        gpu_kernels.states[B * H, blocks(K, wide), blocks(V, wide)](
            k, v, log_decay, first_state, before, new_state, *sizes, g is not None, state is not None, C, wide, precise
        )
        gpu_kernels.outputs[B * H, blocks(T, C), blocks(V, wide)](
            q, k, v, log_decay, before, y, *sizes, g is not None, C, wide, precise, num_warps=8, num_stages=2
        )
    return y, new_state, before


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    before: Tensor,
    dy: Tensor,
    dnew_state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from seqloom.ops.linear_decay import gpu_slopes

    (B, H, T, K), V, (C, wide) = q.shape, v.shape[3], _sizes(q)
    dq, dk, dv = q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)
    dg, later = q.new_empty(2, B, H, T) if g is not None else q.new_empty(2, 0)
    dadded, dstate = before.new_empty(before.shape), v.new_empty(B, H, K, V)
    q, k, v, dy = q.contiguous(), k.contiguous(), v.contiguous(), dy.contiguous()
    log_decay, strides = _decay_and_strides(g, q)
    sizes, precise = (H, T, K, V, *strides), PRECISION[torch.get_float32_matmul_precision()]
    dlast_state = q if dnew_state is None else dnew_state.contiguous()  # an arbitrary tensor where there is none
    with torch.cuda.device_of(q):
        gpu_slopes.state_gradients[B * H, blocks(K, wide), blocks(V, wide)](
            q,
            dy,
            log_decay,
            dlast_state,
            dadded,
            dstate,
            *sizes,
            g is not None,
            dnew_state is not None,
            C,
            wide,
            precise,
        )
        gpu_slopes.input_gradients[B * H, blocks(T, C)](
            *(q, k, v, log_decay, before, dy, dadded, dq, dk, dv, dg, later, *sizes, g is not None, C, wide, precise),
            num_warps=8,
            num_stages=1,
        )
    if g is not None:
        dg = dg + later if g.ndim == 3 else (dg + later).sum((0, 2))
    return dq, dk, dv, dg, dstate


def _shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> list[Sequence[int]]:
    (B, H, T, K), V = q.shape, v.shape[3]
    return [v.shape, (B, H, K, V), (B, H, blocks(T, _sizes(q)[0]), K, V)]


def _gradient_shapes(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, *rest: Tensor | None) -> list[Sequence[int]]:
    (B, H, _, K), V = q.shape, v.shape[3]
    return [q.shape, k.shape, v.shape, (0,) if g is None else g.shape, (B, H, K, V)]


forward = pair_operators(
    "decay_gpu",
    _forward,
    _backward,
    shapes=_shapes,
    gradient_shapes=_gradient_shapes,
    save=lambda inputs, outputs: (*inputs, outputs[2]),
    differentiable=lambda *saved: differentiate(chunked.decay, saved[:5], saved[6:]),
    results=2,
    devices=GPU,
)


def _sizes(q: Tensor) -> tuple[int, int]:
    """Tokens of a chunk, and channels that a program multiplies at once."""
    return chunk(q.dtype), NARROW if q.dtype == torch.float64 else WIDE


def _decay_and_strides(g: Tensor | None, q: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """g with its strides by row, head and token; without g an arbitrary tensor, which the kernel does not read."""
    if g is None:
        return q, (0, 0, 0)
    return g, (0, g.stride(0), 0) if g.ndim == 1 else (g.stride(0), g.stride(1), g.stride(2))
