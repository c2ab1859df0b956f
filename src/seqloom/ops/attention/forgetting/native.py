"""The equation in C, tile by tile (`attention/tiles.c`), where a piece is the whole text.

Tiles are those of the lower triangle: block n of the queries reads blocks n, n - 1, … of the keys, as far as the window
reaches. Whether a pair is visible depends on its distance alone, so tiles with equally many blocks between them share
a mask. The sums c are float64, and C subtracts those of a tile's first query before it rounds them. The gradients of c
are added in float64, since the gradient of a gate is a sum of all later ones.
"""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.attention import native as tiles
from seqloom.ops.attention.tiles import SIZE
from seqloom.ops.autograd import differentiate, pair_operators

lacking = tiles.KERNEL.unavailable


def able(q: Tensor, v: Tensor) -> bool:
    """Whether heads fill vector registers, on a CPU with native code."""
    lanes = 64 // max(q.element_size(), torch.float32.itemsize)
    fills = q.shape[3] % lanes == 0 and v.shape[3] % lanes == 0
    return fills and q.device.type == "cpu" and tiles.KERNEL.available()


def forgetting(q: Tensor, k: Tensor, v: Tensor, g: Tensor, window: int | None) -> Tensor:
    """The equation of the package for T queries and T keys; `window` as there."""
    T, dtype = q.shape[2], v.dtype
    wide_dtype = torch.promote_types(q.dtype, torch.float32)
    missing = -T % _block_size(T)  # tokens that the last block lacks
    q, k, v = (pad(x.transpose(1, 2).to(wide_dtype), (0, 0, 0, 0, 0, missing)) for x in (q, k, v))
    y: Tensor = OPERATOR(q, k, v, pad(g.to(wide_dtype), (0, missing)), T if window is None else min(window, T))[0]
    return y[:, :T].transpose(1, 2).to(dtype)


def _forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """y (B, T, H, V) and log Σ_j e^{z_ij} (B, H, T) of q, k (B, T, H, K), v (B, T, H, V) and g (B, H, T)."""
    sums = g.double().cumsum(-1)
    blocks, *masks = _tiles(q.shape[1], window)
    y, log_sum = tiles.FORWARD(q, k, v, sums, sums, blocks, *masks, threads=tiles.count_threads(q), M=len(blocks))
    return y, log_sum


def _backward(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, window: int, y: Tensor, log_sum: Tensor, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sums = g.double().cumsum(-1)
    blocks, *masks = _tiles(q.shape[1], window)
    dq, dk, dv, dsums = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v, sums))
    delta = (dy * y).sum(-1).transpose(1, 2)
    inputs = q, k, v, sums, sums, dy, log_sum, delta, blocks, *masks
    tiles.BACKWARD(*inputs, dq, dk, dv, dsums, dsums, threads=tiles.count_threads(q), M=len(blocks))
    return dq, dk, dv, dsums.flip(-1).cumsum(-1).flip(-1).to(g.dtype)


def _differentiable(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, window: int, y: Tensor, log_sum: Tensor, dy: Tensor
) -> list[Tensor | None]:
    """The gradients as tensors that can be differentiated again, by the equation over all T² pairs."""
    time = torch.arange(q.shape[1], device=q.device)
    distance = time[:, None] - time
    hidden = (distance < 0) | (distance >= window)

    def attend_by_scores(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        c = g.cumsum(-1)
        z = q @ k.mT / q.shape[-1] ** 0.5 + c[..., :, None] - c[..., None, :]
        return [(z.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2)]

    return differentiate(attend_by_scores, [q, k, v, g], [dy])


def _block_size(T: int) -> int:
    """The tokens of a block: SIZE, or for fewer tokens their number, rounded up to whole vectors."""
    return min(SIZE, -(-T // 16) * 16)


@lru_cache(maxsize=64)
def _tiles(T: int, window: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The blocks of keys of each block of queries, the masks of both, their table, and which of them hide nothing."""
    size = _block_size(T)
    count = T // size
    back = torch.arange(min(count, 1 + -(-(window - 1) // size)))  # how many blocks before that of the queries
    blocks = (torch.arange(count)[:, None] - back).clamp(min=-1)
    different = back if window < T else back[:2]  # all blocks before that of the queries are visible
    masks = back.clamp(max=len(different) - 1).expand(count, -1)
    time = torch.arange(size)
    distance = different[:, None, None] * size + time - time[:, None]
    visible = (distance >= 0) & (distance < window)
    return blocks.int(), masks.int(), visible.view(torch.uint8), visible.flatten(1).all(1).view(torch.uint8)


OPERATOR = pair_operators(
    "forgetting",
    _forward,
    _backward,
    shapes=lambda q, k, v, g, window: [v.shape, g.shape],
    gradient_shapes=lambda q, k, v, g, *rest: [x.shape for x in (q, k, v, g)],
    save=lambda inputs, outputs: (*inputs, *outputs),
    differentiable=_differentiable,
)
