"""Causal attention in narrow heads on a GPU, by Triton (gpu_kernels.py): a program for each head of a row.

Torch's kernels are made for wide heads. Here all scores of a block of queries stay in registers. No card has timed it:
for 32 heads of width 4 at 128 tokens, 18 layers, the estimate is 0.9 ms of a step, where torch's kernels take 4 to 8.

They are two operators of torch, which a compiled model calls unchanged. Products of float32 are as precise as torch's
(`torch.set_float32_matmul_precision`); second derivatives are taken through the plain formula.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from seqloom.core.autocast import autocasts
from seqloom.ops import gpu as device
from seqloom.ops.autograd import GPU, differentiate, pair_operators
from seqloom.ops.gpu import PRECISION, power

LONGEST = 256
"""the most tokens whose scores, against a block of queries, fit into the registers of a program"""
WIDEST = 16
"""the most channels of a head; narrower heads are filled up to as many"""
QUERIES = 32
"""queries of a block"""
FEW = 16
"""the same in double precision, which needs twice the registers"""
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def supports(q: Tensor, V: int) -> bool:
    """Whether the kernels support queries (B, H, T, K) and values of V channels, on this device."""
    longest = LONGEST // 2 if q.dtype == torch.float64 else LONGEST  # what fits into 99 KB of shared memory
    narrow = max(q.shape[3], V) <= WIDEST and q.shape[2] <= longest
    return narrow and q.dtype in DTYPES and device.supports(q.device)


def causal(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """Attention of each position to itself and all before: (B, H, T, K), (B, G, T, K), (B, G, T, V) → (B, H, T, V).

    Under autocast in its dtype, as torch's kernels.
    """
    if autocasts(q.device) and q.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(q.device.type)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if scale is not None:
        q = q * (scale * q.shape[3] ** 0.5)
    y: Tensor = forward(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    return y.transpose(1, 2)


def queries(dtype: torch.dtype) -> int:
    """Queries of a block."""
    return FEW if dtype == torch.float64 else QUERIES


def warps(T: int) -> int:
    """Warps of a program, so that a block of scores takes at most 32 registers of a thread."""
    return 8 if T > LONGEST // 2 else 4


def _forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """y (B, T, H, V) of q (B, T, H, K), k (B, T, G, K) and v (B, T, G, V)."""
    from seqloom.ops.attention import gpu_kernels

    y = q.new_empty(*q.shape[:3], v.shape[3])
    q, k, v = _readable(q), _readable(k), _readable(v)
    with torch.cuda.device_of(q):
        gpu_kernels.forward[(len(q) * q.shape[2],)](q, k, v, y, *_sizes(q, k, v), num_warps=warps(q.shape[1]))
    return y


def _backward(q: Tensor, k: Tensor, v: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    from seqloom.ops.attention import gpu_kernels

    (B, T, H, _), (G, V) = q.shape, v.shape[2:]
    dq, dk, dv = q.new_empty(q.shape), k.new_empty(q.shape), v.new_empty(B, T, H, V)
    q, k, v = _readable(q), _readable(k), _readable(v)
    with torch.cuda.device_of(q):
        gpu_kernels.backward[(B * H,)](
            q, k, v, dy.contiguous(), dq, dk, dv, *_sizes(q, k, v), num_warps=warps(q.shape[1])
        )
    return (dq, dk, dv) if G == H else (dq, _by_shared(dk, G), _by_shared(dv, G))


def _gradient_shapes(q: Tensor, k: Tensor, v: Tensor, dy: Tensor) -> list[Sequence[int]]:
    return [q.shape, k.shape, v.shape]


forward = pair_operators(
    "narrow_attention",
    _forward,
    _backward,
    shapes=lambda q, k, v: [(*q.shape[:3], v.shape[3])],
    gradient_shapes=_gradient_shapes,
    save=lambda inputs, outputs: inputs,
    differentiable=lambda q, k, v, dy: differentiate(_plain, (q, k, v), (dy,)),
    devices=GPU,
)


def _plain(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
    """The same in plain torch."""
    q, k, v = (x.transpose(1, 2).repeat_interleave(q.shape[2] // x.shape[2], 1) for x in (q, k, v))
    hidden = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    z = (q @ k.mT * q.shape[3] ** -0.5).masked_fill(hidden, -torch.inf)
    return ((z.softmax(-1) @ v).transpose(1, 2),)


def _readable(x: Tensor) -> Tensor:
    """x with consecutive channels."""
    return x if x.stride(3) == 1 else x.contiguous()


def _by_shared(gradient: Tensor, G: int) -> Tensor:
    """The sums over the heads of queries (B, T, H, …) that share one of G heads of keys."""
    return gradient.unflatten(2, (G, -1)).sum(3)


def _sizes(q: Tensor, k: Tensor, v: Tensor) -> tuple[object, ...]:
    """What both kernels take after their tensors."""
    import triton.language as tl

    (_, T, H, K), (G, V) = q.shape, v.shape[2:]
    wide = tl.float64 if q.dtype == torch.float64 else tl.float32
    precise = PRECISION[torch.get_float32_matmul_precision()] if q.dtype.itemsize > 2 else "tf32"  # exact for 16 bits
    strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
    return H, H // G, T, K, V, *strides, K**-0.5, queries(q.dtype), power(T, WIDEST), WIDEST, wide, precise
