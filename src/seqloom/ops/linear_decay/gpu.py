"""The decaying sum by chunks on a GPU, by Triton (gpu_kernels.py, gpu_slopes.py).

Two operators of torch, so that a compiled model holds them as they are. Products are as exact as torch's own: see
`torch.set_float32_matmul_precision`. A gradient of a gradient is taken through `chunked`.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.ops.gpu import blocks
from seqloom.ops.linear_decay import chunked

CHUNK, WIDE = 64, 32
"""tokens of a chunk, and channels that a program multiplies at once: powers of two, at least 16"""
NARROW = 16
"""both, for double precision, which fills twice the registers"""
PRECISION = {"highest": "ieee", "high": "tf32x3", "medium": "tf32"}


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    y, after, _ = forward(q, k, v, g, state)
    return y, after


def chunk(kind: torch.dtype) -> int:
    """Tokens of a chunk."""
    return NARROW if kind == torch.float64 else CHUNK


@torch.library.custom_op("seqloom::decay_gpu_forward", mutates_args=(), device_types=("cuda", "cpu"))
def forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """y, S after the last token, and S before each chunk (B, H, chunks, K, V), all of one type."""
    from seqloom.ops.linear_decay import gpu_kernels

    (B, H, T, K), V, (C, wide) = q.shape, v.shape[3], _sizes(q)
    y, after, before = v.new_empty(v.shape), v.new_empty(B, H, K, V), v.new_empty(B, H, blocks(T, C), K, V)
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    given, strides = _forgetting(g, q)
    sizes, precise = (H, T, K, V, *strides), PRECISION[torch.get_float32_matmul_precision()]
    begun = q if state is None else state.contiguous()
    with torch.cuda.device_of(q):
        gpu_kernels.states[B * H, blocks(K, wide), blocks(V, wide)](
            k, v, given, begun, before, after, *sizes, g is not None, state is not None, C, wide, precise
        )
        gpu_kernels.outputs[B * H, blocks(T, C), blocks(V, wide)](
            q, k, v, given, before, y, *sizes, g is not None, C, wide, precise, num_warps=8, num_stages=2
        )
    return y, after, before


@torch.library.custom_op("seqloom::decay_gpu_backward", mutates_args=(), device_types=("cuda", "cpu"))
def _backward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, before: Tensor, dy: Tensor, dafter: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from seqloom.ops.linear_decay import gpu_slopes

    (B, H, T, K), V, (C, wide) = q.shape, v.shape[3], _sizes(q)
    dq, dk, dv = q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)
    dg, later = q.new_empty(2, B, H, T) if g is not None else q.new_empty(2, 0)
    dadded, dstate = before.new_empty(before.shape), v.new_empty(B, H, K, V)
    q, k, v, dy = q.contiguous(), k.contiguous(), v.contiguous(), dy.contiguous()
    given, strides = _forgetting(g, q)
    sizes, precise = (H, T, K, V, *strides), PRECISION[torch.get_float32_matmul_precision()]
    ends = q if dafter is None else dafter.contiguous()
    with torch.cuda.device_of(q):
        gpu_slopes.reached[B * H, blocks(K, wide), blocks(V, wide)](
            q, dy, given, ends, dadded, dstate, *sizes, g is not None, dafter is not None, C, wide, precise
        )
        gpu_slopes.slopes[B * H, blocks(T, C)](
            *(q, k, v, given, before, dy, dadded, dq, dk, dv, dg, later, *sizes, g is not None, C, wide, precise),
            num_warps=8,
            num_stages=1,
        )
    if g is not None:
        dg = dg + later if g.ndim == 3 else (dg + later).sum((0, 2))
    return dq, dk, dv, dg, dstate


@forward.register_fake
def _forward_shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    (B, H, T, K), V = q.shape, v.shape[3]
    chunks = blocks(T, _sizes(q)[0])
    return v.new_empty(v.shape), v.new_empty(B, H, K, V), v.new_empty(B, H, chunks, K, V)


@_backward.register_fake
def _backward_shapes(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, *rest: Tensor | None) -> tuple[Tensor, ...]:
    kept = (q.shape, k.shape, v.shape, (0,) if g is None else g.shape, (*q.shape[:2], q.shape[3], v.shape[3]))
    return tuple(q.new_empty(shape) for shape in kept)


def _save(ctx: Any, inputs: tuple[Tensor | None, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs, output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dy: Tensor | None, dafter: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, g, state, before = ctx.saved_tensors
    if torch.is_grad_enabled():
        return _again((q, k, v, g, state), dy, dafter)
    slope = torch.zeros_like(v) if dy is None else dy
    dq, dk, dv, dg, dstate = _backward(q, k, v, g, before, slope, dafter)
    return dq, dk, dv, None if g is None else dg, None if state is None else dstate


forward.register_autograd(_gradients, setup_context=_save)


def _again(given: tuple[Any, ...], dy: Tensor | None, dafter: Tensor | None) -> tuple[Tensor | None, ...]:
    """The gradients with gradients: through views of what was given, so that none is another's past."""
    views = [None if each is None else each.view_as(each) for each in given]
    q, k, v, g, state = views
    assert q is not None
    assert k is not None
    assert v is not None
    out = chunked.decay(q, k, v, g, state)
    ends = [(end, slope) for end, slope in zip(out, (dy, dafter), strict=True) if slope is not None]
    wanted = [each for each in views if each is not None and each.requires_grad]
    found = iter(
        torch.autograd.grad(
            [end for end, _ in ends], wanted, [slope for _, slope in ends], create_graph=True, allow_unused=True
        )
    )
    return tuple(next(found) if each is not None and each.requires_grad else None for each in views)


def _sizes(q: Tensor) -> tuple[int, int]:
    return chunk(q.dtype), NARROW if q.dtype == torch.float64 else WIDE


def _forgetting(g: Tensor | None, q: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """g as a kernel reads it, and its strides by row, head and token; something to point at where there is none."""
    if g is None:
        return q, (0, 0, 0)
    return g, (0, g.stride(0), 0) if g.ndim == 1 else (g.stride(0), g.stride(1), g.stride(2))
