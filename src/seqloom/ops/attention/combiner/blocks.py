"""Computes all tokens of a group at once; a group is a block, or at level l of `logsparse` a stretch of 2^l tokens."""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad


def combine(q: Tensor, k: Tensor, v: Tensor, form: str, block: int, first: int = 0) -> Tensor:
    """See `combine` of the package. For the output of the last token alone, only its regions are computed."""
    T, dtype = q.shape[2], v.dtype
    if 0 < first == T - 1:
        return _last(q, k, v, form, block)
    size = 1 << (T - 1).bit_length() if form == "logsparse" else block
    wide_dtype = torch.promote_types(q.dtype, torch.float32)
    q, k, v = (pad(x.to(wide_dtype), (0, 0, 0, -T % size)) for x in (q, k, v))
    q = q / math.sqrt(q.shape[3])
    if form == "logsparse":
        levels = range((T - 1).bit_length())
        scores_and_values = [_direct(q, k, v, 1), *(_stretches(q, k, v, 1 << level) for level in levels)]
    else:
        direct = _direct(q, k, v, block)
        regions = (_blocks if form == "fixed" else _columns)(q, k, v, block)
        scores_and_values = [direct, regions]
    # one softmax over the direct tokens and all regions
    weights = torch.cat([scores.flatten(2, 3) for scores, _ in scores_and_values], 3).softmax(3)
    split_weights = weights.split([scores.shape[4] for scores, _ in scores_and_values], 3)
    y = [
        (some_weights.unflatten(2, scores.shape[2:4]) @ values).flatten(2, 3)
        for some_weights, (scores, values) in zip(split_weights, scores_and_values, strict=True)
    ]
    return sum(y[1:], y[0])[:, :, first:T].to(dtype)


def _last(q: Tensor, k: Tensor, v: Tensor, form: str, block: int) -> Tensor:
    """The output of the last of T tokens (B, H, 1, V)."""
    i, dtype = q.shape[2] - 1, v.dtype
    wide_dtype = torch.promote_types(q.dtype, torch.float32)
    q, k, v = (x.to(wide_dtype) for x in (q, k, v))
    q = q / math.sqrt(q.shape[3])
    first_direct = i if form == "logsparse" else i // block * block
    keys, values = [k[:, :, first_direct:]], [v[:, :, first_direct:]]
    for start, stop, size in _stretches_of(i) if form == "logsparse" else [(0, first_direct, block)]:
        if stop > start:
            groups = [x[:, :, start:stop].unflatten(2, (-1, size)) for x in (q, k, v)]
            if form == "axial":  # the regions are columns
                groups = [x.transpose(2, 3) for x in groups]
            key, value = _summaries(*groups)
            keys.append(key)
            values.append(value)
    y: Tensor = (q[:, :, i:] @ torch.cat(keys, 2).mT).softmax(3) @ torch.cat(values, 2)
    return y.to(dtype)


def _stretches_of(i: int) -> list[tuple[int, int, int]]:
    """(start, stop, size) of the stretches of 2^l tokens before token i, one for each bit of i that is 1."""
    sizes = [1 << level for level in reversed(range(i.bit_length())) if i >> level & 1]
    return [(sum(sizes[:n]), sum(sizes[: n + 1]), size) for n, size in enumerate(sizes)]


def _direct(q: Tensor, k: Tensor, v: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The causal scores (B, H, G, size, size) within each of G groups of `size` tokens, and the groups' values."""
    q, k, v = (x.unflatten(2, (-1, size)) for x in (q, k, v))
    later = torch.ones(size, size, dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.mT).masked_fill(later, -math.inf), v


def _blocks(q: Tensor, k: Tensor, v: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The scores (B, H, G, size, G) of the tokens of each group with the groups before it, and the groups' values."""
    keys, values = _summaries(*(x.unflatten(2, (-1, size)) for x in (q, k, v)))
    scores = q.unflatten(2, (-1, size)) @ keys[:, :, None].mT
    group = torch.arange(keys.shape[2], device=q.device)
    return scores.masked_fill((group >= group[:, None])[:, None], -math.inf), values[:, :, None]


def _columns(q: Tensor, k: Tensor, v: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The scores (B, H, G, size, size) of each group's tokens with the columns of earlier groups, and their values."""
    q, k, v = (x.unflatten(2, (-1, size)) for x in (q, k, v))
    # the largest queries and keys of each column, over the groups before each group
    column_q, column_k = (pad(x.cummax(2).values[:, :, :-1], (0, 0, 0, 0, 1, 0)) for x in (q, k))
    group = torch.arange(q.shape[2], device=q.device)
    is_first = (group == 0)[:, None]  # the first group has no columns before it
    z = torch.einsum("bhgck,bhnck->bhcgn", column_q, k).masked_fill(group >= group[:, None], -math.inf)
    values = torch.einsum("bhcgn,bhnck->bhgck", z.masked_fill(is_first, 0.0).softmax(4), v)
    return (q @ column_k.mT).masked_fill(is_first[:, :, None], -math.inf), values


def _stretches(q: Tensor, k: Tensor, v: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The scores (B, H, G, size, 1) of each group with the group before it, and that group's value; odd groups only."""
    groups = (x.unflatten(2, (-1, size)) for x in (q, k, v))
    keys, values = (pad(x[:, :, :-1], (0, 0, 1, 0))[:, :, :, None] for x in _summaries(*groups))
    scores = q.unflatten(2, (-1, size)) @ keys.mT
    even = torch.arange(keys.shape[2], device=q.device)[:, None, None] % 2 == 0
    return scores.masked_fill(even, -math.inf), values


def _summaries(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The keys and the values (B, H, G, K) of groups of N tokens (B, H, G, N, K)."""
    weights = (k @ q.amax(3)[..., None]).softmax(3)
    return k.amax(3), (weights.mT @ v)[:, :, :, 0]
