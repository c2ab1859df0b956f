"""Attention whose scores have a bias by distance, and sinks: tile by tile, through torch's flash kernel for a CPU.

    y_i = Σ_j a_ij v_j,   a_ij = e^{q_i·k_j + b(i-j) - l_i},   l_i = log(e^s + Σ_j e^{q_i·k_j + b(i-j)})
    dz_ij = a_ij (dy_i · v_j - dy_i · y_i),   db(d) = Σ_{i-j=d} dz_ij,   ds = -Σ_i e^{s-l_i} dy_i · y_i

b is -∞ where nothing is seen. The kernel takes a mask in memory. With the keys in reverse order, j' = T-1-j, the bias
of (i, j') is number i + j' of one vector: a view of it with strides (1, 1) is the mask, and no matrix of T² is formed.
The kernel's own backward is right with sinks, given l and y with them.

Σ_j dz_ij = 0 with the sink, since softmax does not see a common shift. So of a bias that is constant from some distance
on, as T5's, a causal backward forms dz near the diagonal only: the rest is what is missing to 0.

A key whose weight is below eps² of the query's own, by the lengths of queries and keys, is left out: it changes no
number, and a tile of such keys in all heads is not computed. `exp` of them can be slow, too (docs/log.md).
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.attention.fast import of_queries
from seqloom.ops.attention.scores import Scores
from seqloom.ops.autograd import differentiate, paired

TILE = 256
"""queries of a tile"""
BAND = 128
"""queries of a tile near the diagonal, where the gradient of the bias is formed"""
flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def able(q: Tensor, scores: Scores) -> bool:
    """Whether it can do this: on a CPU, with a bias or sinks alone."""
    return not scores.formed and q.device.type == "cpu"


def attend(q: Tensor, k: Tensor, v: Tensor, scores: Scores, before: int | None, after: int | None) -> Tensor:
    """(B, H, T, K), (B, G, T, K), (B, G, T, V) → (B, H, T, V): each query looks `before` back and `after` ahead."""
    T, dtype = q.shape[2], q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    q = q.to(wide) * (q.shape[-1] ** -0.5 if scores.scale is None else scores.scale)
    k, v = of_queries(q, k).to(wide), of_queries(q, v).to(wide)
    values, first = (None, 0) if scores.bias is None else (scores.bias.values.to(wide), scores.bias.first)
    sinks = None if scores.sinks is None else scores.sinks.to(wide)
    wanted = values is not None and values.requires_grad and torch.is_grad_enabled()
    sizes = torch.tensor([first, *(T if side is None else side for side in (before, after)), int(wanted)])
    K, V = q.shape[3], v.shape[3]
    if K != V:  # which the kernel does not take
        q, k, v = (pad(tensor, (0, max(K, V) - tensor.shape[3])) for tensor in (q, k, v))
    y: Tensor = _forward(q, k, v, values, sinks, sizes)[0]
    return y[..., :V].to(dtype)


def _run(
    q: Tensor, k: Tensor, v: Tensor, values: Tensor | None, sinks: Tensor | None, sizes: Tensor
) -> tuple[Tensor, Tensor]:
    first, before, after, _ = sizes.tolist()
    biases = _biases(q, k, values, first, before, after)
    k, v = k.flip(2), v.flip(2)
    y = v.new_empty(*q.shape[:3], v.shape[3])
    log = q.new_empty(q.shape[:3])
    for a, b, keys, mask in _tiles(biases, q.shape[2], before, after, TILE):
        y[:, :, a:b], log[:, :, a:b] = flash(q[:, :, a:b], k[:, :, keys], v[:, :, keys], attn_mask=mask, scale=1.0)
    if sinks is not None:
        total = torch.logaddexp(log, sinks[:, None])
        y *= torch.exp(log - total)[..., None]
        log = total
    return y, log


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    values: Tensor | None,
    sinks: Tensor | None,
    sizes: Tensor,
    y: Tensor,
    log: Tensor,
    dy: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    first, before, after, wanted = sizes.tolist()
    biases = _biases(q, k, values, first, before, after)
    k, v = k.flip(2), v.flip(2)
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for a, b, keys, mask in _tiles(biases, q.shape[2], before, after, TILE):
        rows = (tensor[:, :, a:b] for tensor in (y, log))
        of_q, of_k, of_v = flash_backward(
            dy[:, :, a:b], q[:, :, a:b], k[:, :, keys], v[:, :, keys], *rows, 0.0, False, attn_mask=mask, scale=1.0
        )
        dq[:, :, a:b] = of_q
        dk[:, :, keys] += of_k
        dv[:, :, keys] += of_v
    product = (dy * y).sum(-1)
    dsinks = q.new_zeros(0) if sinks is None else -(torch.exp(sinks[:, None] - log) * product).sum((0, 2))
    dvalues = q.new_zeros(0)
    if wanted and values is not None:
        dvalues = _of_values(q, k, v, biases, log, dy, product, values, dsinks, first, before, after)
    return dq, dk.flip(2), dv.flip(2), dvalues, dsinks


def _again(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    values: Tensor | None,
    sinks: Tensor | None,
    sizes: Tensor,
    y: Tensor,
    log: Tensor,
    dy: Tensor,
) -> list[Tensor | None]:
    """The gradients as tensors that can be differentiated again: of the equation over the whole square."""
    first, before, after, _ = sizes.tolist()
    distance = torch.arange(q.shape[2], device=q.device)[:, None] - torch.arange(q.shape[2], device=q.device)
    hidden = (distance > before) | (-distance > after)

    def formed(q: Tensor, k: Tensor, v: Tensor, values: Tensor | None, sinks: Tensor | None) -> list[Tensor]:
        z = q @ k.mT
        if values is not None:
            z = z + values[:, (distance - first).clamp(0, values.shape[1] - 1)]
        z = z.masked_fill(hidden, -math.inf)
        if sinks is not None:
            z = torch.cat([z, sinks[:, None, None].expand(*z.shape[:3], 1)], -1)
        return [z.softmax(-1)[..., : k.shape[2]] @ v]

    return differentiate(formed, [q, k, v, values, sinks], [dy])


def _of_values(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    biases: Tensor,
    log: Tensor,
    dy: Tensor,
    product: Tensor,
    values: Tensor,
    dsinks: Tensor,
    first: int,
    before: int,
    after: int,
) -> Tensor:
    """The gradient of the values (H, R); keys and values of attention in reverse order."""
    T, last = q.shape[2], first + values.shape[1] - 1
    constant = after == 0 and 0 < last < min(T, before + 1)  # the bias of `last` and all beyond follows from the others
    by_distance = torch.zeros_like(biases)
    for a, b, keys, mask in _tiles(biases, T, last - 1 if constant else before, after, BAND):
        z = q[:, :, a:b] @ k[:, :, keys].mT + mask
        weights = z.sub_(log[:, :, a:b, None]).exp_()
        dz = weights.mul_((dy[:, :, a:b] @ v[:, :, keys].mT).sub_(product[:, :, a:b, None]))
        start = a + keys.start
        sums = _diagonals(dz.sum(0))
        by_distance[:, start : start + sums.shape[1]] += sums
    at = (torch.arange(1 - T, T, device=q.device) - first).clamp(0, values.shape[1] - 1)
    result = torch.zeros_like(values).index_add_(1, at, by_distance)
    if constant:
        result[:, -1] = -result[:, :-1].sum(1) - (dsinks if len(dsinks) else 0)
    return result


def _diagonals(x: Tensor) -> Tensor:
    """Σ_{r+c=n} x_rc of each matrix (H, R, C): (H, R + C - 1)."""
    H, R, C = x.shape
    shifted = x.new_zeros(H, R, R + C)
    shifted.as_strided(x.shape, (R * (R + C), R + C + 1, 1)).copy_(x)
    return shifted.sum(1)[:, : R + C - 1]


def _biases(q: Tensor, k: Tensor, values: Tensor | None, first: int, before: int, after: int) -> Tensor:
    """The bias of each distance from 1 - T to T - 1 (H, 2T - 1), or -∞ where nothing is seen."""
    T = q.shape[2]
    distance = torch.arange(1 - T, T, device=q.device)
    if values is None:
        biases = q.new_zeros(q.shape[1], 2 * T - 1)
    else:
        biases = values.to(q.dtype)[:, (distance - first).clamp(0, values.shape[1] - 1)]
    seen = (distance <= before) & (-distance <= after)
    below = biases - biases[:, T - 1, None]
    floor = 2 * math.log(torch.finfo(q.dtype).eps)
    if bool((below[:, seen] < floor).any()):
        largest = q.norm(dim=-1).amax((0, 2)) * k.norm(dim=-1).amax((0, 2))
        seen = seen & ~(below + 2 * largest[:, None] < floor)
    return biases.masked_fill(~seen, -math.inf)


def _tiles(biases: Tensor, T: int, before: int, after: int, size: int) -> list[tuple[int, int, slice, Tensor]]:
    """Queries a to b, the keys in reverse order that one of them may see, and their mask (1, H, b - a, keys)."""
    near = torch.isfinite(biases).any(0).nonzero()[:, 0]
    before, after = min(before, int(near[-1]) - T + 1), min(after, T - 1 - int(near[0]))
    tiles = []
    for a in range(0, T, size):
        b = min(a + size, T)
        keys = slice(T - min(T, b + after), T - max(0, a - before))
        shape, strides = (1, len(biases), b - a, keys.stop - keys.start), (0, biases.stride(0), 1, 1)
        tiles.append((a, b, keys, biases.as_strided(shape, strides, a + keys.start)))
    return tiles


_forward = paired(
    "attention_by_distance",
    _run,
    _gradients,
    shapes=lambda q, k, v, *rest: [[*q.shape[:3], v.shape[3]], q.shape[:3]],
    gradient_shapes=lambda q, k, v, values, sinks, sizes, y, log, dy: [
        *(each.shape for each in (q, k, v)),
        *((0,) if each is None else each.shape for each in (values, sinks)),
    ],
    save=lambda inputs, outputs: (*inputs, *outputs),
    again=_again,
)
