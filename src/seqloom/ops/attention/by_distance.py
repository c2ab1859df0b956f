"""Attention whose scores have a bias by distance, and sinks: tile by tile, through torch's flash kernel for a CPU.

    y_i = Σ_j a_ij v_j,   a_ij = e^{q_i·k_j + b(i-j) - l_i},   l_i = log(e^s + Σ_j e^{q_i·k_j + b(i-j)})
    dz_ij = a_ij (dy_i · v_j - dy_i · y_i),   db(d) = Σ_{i-j=d} dz_ij,   ds = -Σ_i e^{s-l_i} dy_i · y_i

b is -∞ where a key is hidden. The kernel reads the bias as a mask in memory. With the keys in reverse order,
j' = T-1-j, the bias of (i, j') is entry i + j' of one vector: a view of it with strides (1, 1) is the mask, so no T²
matrix is formed. The kernel's backward pass is also right with sinks, if l and y include them.

Σ_j dz_ij = 0 with the sink included, since softmax does not change under a common shift. So for a bias that is constant
beyond some distance, such as T5's, the causal backward pass forms dz only near the diagonal: the gradient of the
constant is minus the sum of all other gradients.

A key is left out if the norms of queries and keys guarantee that its weight is below eps² of the weight of the query's
own key: it could not change any result, and tiles of such keys are not computed. So ALiBi's steeper heads read few
keys; each group of neighboring heads that see equally far has its own tiles. Leaving keys out also avoids `exp` of very
negative numbers, which is slow (docs/log.md).
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.attention.fast import of_queries
from seqloom.ops.attention.scores import Scores
from seqloom.ops.autograd import differentiate, pair_operators

TILE = 256
"""queries of a tile"""
BAND = 128
"""queries of a tile near the diagonal, where the gradient of the bias is formed"""
flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def supports(q: Tensor, scores: Scores) -> bool:
    """Whether this backend supports the call: on a CPU, with no changes of scores but a bias or sinks."""
    return not scores.needs_each_score and q.device.type == "cpu"


def attend(q: Tensor, k: Tensor, v: Tensor, scores: Scores, before: int | None, after: int | None) -> Tensor:
    """(B, H, T, K), (B, G, T, K), (B, G, T, V) → (B, H, T, V).

    Each query attends to itself, to `before` keys before it and to `after` keys after it; None for all.
    """
    T, dtype = q.shape[2], q.dtype
    wide_dtype = torch.promote_types(dtype, torch.float32)
    scale = q.shape[-1] ** -0.5 if scores.scale is None else scores.scale
    q, k, v = q.to(wide_dtype), of_queries(q, k).to(wide_dtype), of_queries(q, v).to(wide_dtype)
    bias_values = None if scores.bias is None else scores.bias.values.to(wide_dtype)
    first = 0 if scores.bias is None else scores.bias.first
    sinks = None if scores.sinks is None else scores.sinks.to(wide_dtype)
    bias_grad = bias_values is not None and bias_values.requires_grad and torch.is_grad_enabled()
    before_and_after = (T if side is None else side for side in (before, after))
    numbers = torch.tensor([first, *before_and_after, int(bias_grad), scale], dtype=torch.float64)
    K, V = q.shape[3], v.shape[3]
    if K != V:  # the kernel needs equal widths
        q, k, v = (pad(tensor, (0, max(K, V) - tensor.shape[3])) for tensor in (q, k, v))
    y: Tensor = _forward(q, k.flip(2), v.flip(2), bias_values, sinks, numbers)[0]
    return y[..., :V].to(dtype)


def _read(numbers: Tensor) -> tuple[int, int, int, bool, float]:
    """(distance of the first bias value, keys seen before and after, whether the bias needs a gradient, scale)."""
    first, before, after, bias_grad, scale = numbers.tolist()
    return int(first), int(before), int(after), bool(bias_grad), scale


def _run(
    q: Tensor, k: Tensor, v: Tensor, bias_values: Tensor | None, sinks: Tensor | None, numbers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """y, l (`log_sums`) and the bias of each distance. Here and below, keys and values are in reverse order."""
    first, before, after, _, scale = _read(numbers)
    biases = _biases(q, k, bias_values, first, before, after, scale)
    y = v.new_empty(*q.shape[:3], v.shape[3])
    log_sums = q.new_empty(q.shape[:3])
    for heads, rows, keys, mask in _tiles(biases, before, after, TILE):
        inputs = q[:, heads, rows], k[:, heads, keys], v[:, heads, keys]
        y[:, heads, rows], log_sums[:, heads, rows] = flash(*inputs, attn_mask=mask, scale=scale)
    if sinks is not None:
        with_sinks = torch.logaddexp(log_sums, sinks[:, None])
        y *= torch.exp(log_sums - with_sinks)[..., None]
        log_sums = with_sinks
    return y, log_sums, biases


def _gradients(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias_values: Tensor | None,
    sinks: Tensor | None,
    numbers: Tensor,
    y: Tensor,
    log_sums: Tensor,
    biases: Tensor,
    dy: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v, the bias values and the sinks; of size 0 where the last two need none."""
    first, before, after, bias_grad, scale = _read(numbers)
    dq, dk, dv = (torch.empty_like(tensor) for tensor in (q, k, v))
    for heads, rows, keys, mask in _tiles(biases, before, after, TILE):
        inputs = dy[:, heads, rows], q[:, heads, rows], k[:, heads, keys], v[:, heads, keys]
        outputs = y[:, heads, rows], log_sums[:, heads, rows]
        tile_dq, tile_dk, tile_dv = flash_backward(*inputs, *outputs, 0.0, False, attn_mask=mask, scale=scale)
        dq[:, heads, rows] = tile_dq
        for total, tile_grad in ((dk, tile_dk), (dv, tile_dv)):
            if rows.stop == q.shape[2]:  # the first tile of these heads: its keys are the last ones
                total[:, heads, keys] = tile_grad
                total[:, heads, keys.stop :] = 0.0
            else:
                total[:, heads, keys] += tile_grad
    dvalues, dsinks = q.new_zeros(0), q.new_zeros(0)
    dy_y = (dy * y).sum(-1) if bias_grad or sinks is not None else None
    if sinks is not None and dy_y is not None:
        dsinks = -(torch.exp(sinks[:, None] - log_sums) * dy_y).sum((0, 2))
    if bias_grad and bias_values is not None and dy_y is not None:
        dvalues = _bias_gradient(q * scale, k, v, biases, log_sums, dy, dy_y, bias_values, dsinks, first, before, after)
    return dq, dk, dv, dvalues, dsinks


def _differentiable(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias_values: Tensor | None,
    sinks: Tensor | None,
    numbers: Tensor,
    y: Tensor,
    log_sums: Tensor,
    biases: Tensor,
    dy: Tensor,
) -> list[Tensor | None]:
    """The gradients as tensors that can be differentiated again, by the equation over all T² pairs."""
    first, before, after, _, scale = _read(numbers)
    time = torch.arange(q.shape[2], device=q.device)
    distance = time[:, None] - time.flip(0)
    hidden = (distance > before) | (-distance > after)

    def attend_by_scores(
        q: Tensor, k: Tensor, v: Tensor, bias_values: Tensor | None, sinks: Tensor | None
    ) -> list[Tensor]:
        z = scale * q @ k.mT
        if bias_values is not None:
            z = z + bias_values[:, (distance - first).clamp(0, bias_values.shape[1] - 1)]
        z = z.masked_fill(hidden, -math.inf)
        if sinks is not None:
            z = torch.cat([z, sinks[:, None, None].expand(*z.shape[:3], 1)], -1)
        return [z.softmax(-1)[..., : k.shape[2]] @ v]

    return differentiate(attend_by_scores, [q, k, v, bias_values, sinks], [dy])


def _bias_gradient(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    biases: Tensor,
    log_sums: Tensor,
    dy: Tensor,
    dy_y: Tensor,
    bias_values: Tensor,
    dsinks: Tensor,
    first: int,
    before: int,
    after: int,
) -> Tensor:
    """The gradient of the bias values (H, R); `q` is already times the scale, `dy_y` is Σ dy y (B, H, T)."""
    T = q.shape[2]
    last = first + bias_values.shape[1] - 1  # the distance of the last bias value
    constant_beyond = after == 0 and 0 < last < min(T, before + 1)  # then its gradient follows from all others
    dbiases = torch.zeros_like(biases)
    for heads, rows, keys, mask in _tiles(biases, last - 1 if constant_beyond else before, after, BAND):
        z = q[:, heads, rows] @ k[:, heads, keys].mT + mask
        weights = z.sub_(log_sums[:, heads, rows, None]).exp_()
        dz = weights.mul_((dy[:, heads, rows] @ v[:, heads, keys].mT).sub_(dy_y[:, heads, rows, None]))
        start = rows.start + keys.start
        sums = _diagonals(dz.sum(0))
        dbiases[heads, start : start + sums.shape[1]] += sums
    index = (torch.arange(1 - T, T, device=q.device) - first).clamp(0, bias_values.shape[1] - 1)
    dvalues = torch.zeros_like(bias_values).index_add_(1, index, dbiases)
    if constant_beyond:
        dvalues[:, -1] = -dvalues[:, :-1].sum(1) - (dsinks if len(dsinks) else 0)
    return dvalues


def _diagonals(x: Tensor) -> Tensor:
    """The sums of the antidiagonals, Σ_{r+c=n} x_rc, of matrices (H, R, C): (H, R + C - 1)."""
    H, R, C = x.shape
    shifted = x.new_zeros(H, R, R + C)
    shifted.as_strided(x.shape, (R * (R + C), R + C + 1, 1)).copy_(x)
    return shifted.sum(1)[:, : R + C - 1]


def _biases(
    q: Tensor, k: Tensor, bias_values: Tensor | None, first: int, before: int, after: int, scale: float
) -> Tensor:
    """The bias of each distance from 1 - T to T - 1 (H, 2T - 1), -∞ at distances that are hidden or left out."""
    T = q.shape[2]
    distance = torch.arange(1 - T, T, device=q.device)
    if bias_values is None:
        biases = q.new_zeros(q.shape[1], 2 * T - 1)
    else:
        biases = bias_values.to(q.dtype)[:, (distance - first).clamp(0, bias_values.shape[1] - 1)]
    visible = (distance <= before) & (-distance <= after)
    relative = biases - biases[:, T - 1, None]  # to the bias of the query's own key
    log_eps2 = 2 * math.log(torch.finfo(q.dtype).eps)
    if bool((relative[:, visible] < log_eps2).any()):
        largest_product = abs(scale) * q.norm(dim=-1).amax((0, 2)) * k.norm(dim=-1).amax((0, 2))
        # the products of a query with its own key and with another key differ by at most 2 * largest_product
        visible = visible & ~(relative + 2 * largest_product[:, None] < log_eps2)
    return biases.masked_fill(~visible, -math.inf)


def _tiles(biases: Tensor, before: int, after: int, size: int) -> list[tuple[slice, slice, slice, Tensor]]:
    """Tiles as (heads, queries, keys that any of them may see, in reverse order, mask (1, heads, queries, keys)).

    `size` is the number of queries. For each group of heads the tile of the last queries comes first.
    """
    T = biases.shape[1] // 2 + 1
    tiles: list[tuple[slice, slice, slice, Tensor]] = []
    for heads, back, ahead in _head_groups(biases, before, after, size):
        for start in reversed(range(0, T, size)):
            stop = min(start + size, T)
            keys, mask = _keys_and_mask(biases[heads], start, stop, back, ahead)
            tiles.append((heads, slice(start, stop), keys, mask))
    return tiles


def _head_groups(biases: Tensor, before: int, after: int, size: int) -> list[tuple[slice, int, int]]:
    """Groups of neighboring heads that see equally many tiles of `size` back and ahead, with their reach in tokens."""
    T = biases.shape[1] // 2 + 1
    visible = torch.isfinite(biases)
    back = (visible[:, T - 1 :].long() * torch.arange(T, device=biases.device)).amax(1).clamp(max=before)
    ahead = (visible[:, :T].flip(1).long() * torch.arange(T, device=biases.device)).amax(1).clamp(max=after)
    groups: list[tuple[slice, int, int]] = []
    for head, reach in enumerate(zip(back.tolist(), ahead.tolist(), strict=True)):
        last = groups[-1] if groups else None
        if last is not None and all(-(-a // size) == -(-b // size) for a, b in zip(last[1:], reach, strict=True)):
            groups[-1] = slice(last[0].start, head + 1), max(last[1], reach[0]), max(last[2], reach[1])
        else:
            groups.append((slice(head, head + 1), *reach))
    return groups


def _keys_and_mask(biases: Tensor, start: int, stop: int, before: int, after: int) -> tuple[slice, Tensor]:
    """The keys, in reverse order, that any of the queries from `start` to `stop` may see, and their mask."""
    T = biases.shape[1] // 2 + 1
    keys = slice(T - min(T, stop + after), T - max(0, start - before))
    shape, strides = (1, len(biases), stop - start, keys.stop - keys.start), (0, biases.stride(0), 1, 1)
    return keys, biases.as_strided(shape, strides, biases.storage_offset() + start + keys.start)


_forward = pair_operators(
    "attention_by_distance",
    _run,
    _gradients,
    shapes=lambda q, k, v, *rest: [[*q.shape[:3], v.shape[3]], q.shape[:3], (q.shape[1], 2 * q.shape[2] - 1)],
    gradient_shapes=lambda q, k, v, bias_values, sinks, numbers, y, log_sums, biases, dy: [
        *(tensor.shape for tensor in (q, k, v)),
        *((0,) if tensor is None else tensor.shape for tensor in (bias_values, sinks)),
    ],
    save=lambda inputs, outputs: (*inputs, *outputs),
    differentiable=_differentiable,
)
