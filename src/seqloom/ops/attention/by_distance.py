"""Attention whose scores have a bias by distance, and sinks: tile by tile, through torch's flash kernel for a CPU.

    y_i = Σ_j a_ij v_j,   a_ij = e^{q_i·k_j + b(i-j) - l_i},   l_i = log(e^s + Σ_j e^{q_i·k_j + b(i-j)})
    dz_ij = a_ij (dy_i · v_j - dy_i · y_i),   db(d) = Σ_{i-j=d} dz_ij,   ds = -Σ_i e^{s-l_i} dy_i · y_i

b is -∞ where a key is hidden. The kernel reads the bias as a mask in memory. With the keys in reverse order,
j' = T-1-j, the bias of (i, j') is entry i + j' of one vector: a view of it with strides (1, 1) is the mask, so no T²
matrix is formed. The kernel's backward pass is also right with sinks, if l and y include them.

Σ_j dz_ij = 0 with the sink included, since softmax does not change under a common shift. So for a bias that is constant
beyond some distance, such as T5's, the causal backward pass forms dz only near the diagonal: the sum over the rest is
what the near part lacks to 0.

A key whose weight is certainly below eps² of the weight of the query's own key (by the norms of queries and keys) is
left out: it would not change any result, and tiles of such keys are not computed. In this way ALiBi's steeper heads
read few keys; each group of neighboring heads that reach equally far has its own tiles. Leaving keys out also avoids
`exp` of very negative numbers, which is slow (docs/log.md).
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
    """Whether this backend supports the call: on a CPU, with no changes of scores but a bias or sinks."""
    return not scores.formed and q.device.type == "cpu"


def attend(q: Tensor, k: Tensor, v: Tensor, scores: Scores, before: int | None, after: int | None) -> Tensor:
    """(B, H, T, K), (B, G, T, K), (B, G, T, V) → (B, H, T, V).

    Each query attends to itself, to `before` keys before it and to `after` keys after it; None for all.
    """
    T, dtype = q.shape[2], q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scores.scale is None else scores.scale
    q, k, v = q.to(wide), of_queries(q, k).to(wide), of_queries(q, v).to(wide)
    values, first = (None, 0) if scores.bias is None else (scores.bias.values.to(wide), scores.bias.first)
    sinks = None if scores.sinks is None else scores.sinks.to(wide)
    wanted = values is not None and values.requires_grad and torch.is_grad_enabled()
    sides = (T if side is None else side for side in (before, after))
    numbers = torch.tensor([first, *sides, int(wanted), scale], dtype=torch.float64)
    K, V = q.shape[3], v.shape[3]
    if K != V:  # the kernel needs equal widths
        q, k, v = (pad(tensor, (0, max(K, V) - tensor.shape[3])) for tensor in (q, k, v))
    y: Tensor = _forward(q, k.flip(2), v.flip(2), values, sinks, numbers)[0]
    return y[..., :V].to(dtype)


def _read(numbers: Tensor) -> tuple[int, int, int, bool, float]:
    """(first distance of the values, tokens seen back and ahead, whether the values need a gradient, scale)."""
    first, before, after, wanted, scale = numbers.tolist()
    return int(first), int(before), int(after), bool(wanted), scale


def _run(
    q: Tensor, k: Tensor, v: Tensor, values: Tensor | None, sinks: Tensor | None, numbers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """y, l and the bias of each distance. Here and below, keys and values are in reverse order."""
    first, before, after, _, scale = _read(numbers)
    biases = _biases(q, k, values, first, before, after, scale)
    y = v.new_empty(*q.shape[:3], v.shape[3])
    log = q.new_empty(q.shape[:3])
    for heads, rows, keys, mask in _tiles(biases, before, after, TILE):
        some = q[:, heads, rows], k[:, heads, keys], v[:, heads, keys]
        y[:, heads, rows], log[:, heads, rows] = flash(*some, attn_mask=mask, scale=scale)
    if sinks is not None:
        total = torch.logaddexp(log, sinks[:, None])
        y *= torch.exp(log - total)[..., None]
        log = total
    return y, log, biases


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    values: Tensor | None,
    sinks: Tensor | None,
    numbers: Tensor,
    y: Tensor,
    log: Tensor,
    biases: Tensor,
    dy: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    first, before, after, wanted, scale = _read(numbers)
    dq, dk, dv = (torch.empty_like(tensor) for tensor in (q, k, v))
    for heads, rows, keys, mask in _tiles(biases, before, after, TILE):
        some = dy[:, heads, rows], q[:, heads, rows], k[:, heads, keys], v[:, heads, keys]
        ends = y[:, heads, rows], log[:, heads, rows]
        of_q, of_k, of_v = flash_backward(*some, *ends, 0.0, False, attn_mask=mask, scale=scale)
        dq[:, heads, rows] = of_q
        for total, part in ((dk, of_k), (dv, of_v)):
            if rows.stop == q.shape[2]:  # the first tile of these heads: its keys are the last ones
                total[:, heads, keys] = part
                total[:, heads, keys.stop :] = 0.0
            else:
                total[:, heads, keys] += part
    dvalues, dsinks = q.new_zeros(0), q.new_zeros(0)
    product = (dy * y).sum(-1) if wanted or sinks is not None else None
    if sinks is not None and product is not None:
        dsinks = -(torch.exp(sinks[:, None] - log) * product).sum((0, 2))
    if wanted and values is not None and product is not None:
        dvalues = _of_values(q * scale, k, v, biases, log, dy, product, values, dsinks, first, before, after)
    return dq, dk, dv, dvalues, dsinks


def _differentiable(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    values: Tensor | None,
    sinks: Tensor | None,
    numbers: Tensor,
    y: Tensor,
    log: Tensor,
    biases: Tensor,
    dy: Tensor,
) -> list[Tensor | None]:
    """The gradients as tensors that can be differentiated again, by the equation over all T² pairs."""
    first, before, after, _, scale = _read(numbers)
    at = torch.arange(q.shape[2], device=q.device)
    distance = at[:, None] - at.flip(0)
    hidden = (distance > before) | (-distance > after)

    def formed(q: Tensor, k: Tensor, v: Tensor, values: Tensor | None, sinks: Tensor | None) -> list[Tensor]:
        z = scale * q @ k.mT
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
    """The gradient of the bias values (H, R); queries are scaled already."""
    T, last = q.shape[2], first + values.shape[1] - 1
    constant = after == 0 and 0 < last < min(T, before + 1)  # the gradient at `last` and beyond follows from the others
    by_distance = torch.zeros_like(biases)
    for heads, rows, keys, mask in _tiles(biases, last - 1 if constant else before, after, BAND):
        z = q[:, heads, rows] @ k[:, heads, keys].mT + mask
        weights = z.sub_(log[:, heads, rows, None]).exp_()
        dz = weights.mul_((dy[:, heads, rows] @ v[:, heads, keys].mT).sub_(product[:, heads, rows, None]))
        start = rows.start + keys.start
        sums = _diagonals(dz.sum(0))
        by_distance[heads, start : start + sums.shape[1]] += sums
    at = (torch.arange(1 - T, T, device=q.device) - first).clamp(0, values.shape[1] - 1)
    result = torch.zeros_like(values).index_add_(1, at, by_distance)
    if constant:
        result[:, -1] = -result[:, :-1].sum(1) - (dsinks if len(dsinks) else 0)
    return result


def _diagonals(x: Tensor) -> Tensor:
    """The sums of the antidiagonals, Σ_{r+c=n} x_rc, of matrices (H, R, C): (H, R + C - 1)."""
    H, R, C = x.shape
    shifted = x.new_zeros(H, R, R + C)
    shifted.as_strided(x.shape, (R * (R + C), R + C + 1, 1)).copy_(x)
    return shifted.sum(1)[:, : R + C - 1]


def _biases(q: Tensor, k: Tensor, values: Tensor | None, first: int, before: int, after: int, scale: float) -> Tensor:
    """The bias of each distance from 1 - T to T - 1 (H, 2T - 1), -∞ at distances that are hidden."""
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
        largest = abs(scale) * q.norm(dim=-1).amax((0, 2)) * k.norm(dim=-1).amax((0, 2))
        seen = seen & ~(below + 2 * largest[:, None] < floor)
    return biases.masked_fill(~seen, -math.inf)


def _tiles(biases: Tensor, before: int, after: int, size: int) -> list[tuple[slice, slice, slice, Tensor]]:
    """Tiles as (heads, queries, keys that any of them may see, in reverse order, mask (1, heads, queries, keys)).

    For each group of heads the tile of the last queries comes first.
    """
    T = biases.shape[1] // 2 + 1
    return [
        (heads, slice(a, min(a + size, T)), *_seen(biases[heads], a, min(a + size, T), back, ahead))
        for heads, back, ahead in _runs(biases, before, after, size)
        for a in reversed(range(0, T, size))
    ]


def _runs(biases: Tensor, before: int, after: int, size: int) -> list[tuple[slice, int, int]]:
    """Groups of neighboring heads that see equally far back and ahead, in multiples of `size`, with both distances."""
    T = biases.shape[1] // 2 + 1
    seen = torch.isfinite(biases)
    back = (seen[:, T - 1 :].long() * torch.arange(T, device=biases.device)).amax(1).clamp(max=before)
    ahead = (seen[:, :T].flip(1).long() * torch.arange(T, device=biases.device)).amax(1).clamp(max=after)
    runs: list[tuple[slice, int, int]] = []
    for head, reach in enumerate(zip(back.tolist(), ahead.tolist(), strict=True)):
        last = runs[-1] if runs else None
        if last is not None and all(-(-a // size) == -(-b // size) for a, b in zip(last[1:], reach, strict=True)):
            runs[-1] = slice(last[0].start, head + 1), max(last[1], reach[0]), max(last[2], reach[1])
        else:
            runs.append((slice(head, head + 1), *reach))
    return runs


def _seen(biases: Tensor, a: int, b: int, before: int, after: int) -> tuple[slice, Tensor]:
    """The keys, in reverse order, that any of the queries a to b may see, and their mask."""
    T = biases.shape[1] // 2 + 1
    keys = slice(T - min(T, b + after), T - max(0, a - before))
    shape, strides = (1, len(biases), b - a, keys.stop - keys.start), (0, biases.stride(0), 1, 1)
    return keys, biases.as_strided(shape, strides, biases.storage_offset() + a + keys.start)


_forward = paired(
    "attention_by_distance",
    _run,
    _gradients,
    shapes=lambda q, k, v, *rest: [[*q.shape[:3], v.shape[3]], q.shape[:3], (q.shape[1], 2 * q.shape[2] - 1)],
    gradient_shapes=lambda q, k, v, values, sinks, numbers, y, log, biases, dy: [
        *(tensor.shape for tensor in (q, k, v)),
        *((0,) if tensor is None else tensor.shape for tensor in (values, sinks)),
    ],
    save=lambda inputs, outputs: (*inputs, *outputs),
    differentiable=_differentiable,
)
