"""The attention that each key receives: the sum over queries of the mean weight over heads.

    z_ij = q_i · k_j / √K, changed by `Scores`,   a_ij = e^{z_ij} / Σ_{j'} e^{z_ij'}     over pairs in `pattern`
    use_j = Σ_i mean_h a_hij

i and j are the times of queries and keys, as in `seqloom.ops.attention`; a negative time is padding.

Source: Rae et al., Compressive Transformer, arXiv:1911.05507, section 3.1, whose "most used" keeps the memories of the
largest average attention. Nothing differs.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops.attention import Pattern, causal
from seqloom.ops.attention.scores import ScoreChange, Scores
from seqloom.ops.attention.usage import reference
from seqloom.ops.attention.usage.reference import PatternLike
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

AT_ONCE = 1 << 22
"""scores that are formed at once"""


def usage(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H N K"],
    query_time: Int[Tensor, "B T"],
    key_time: Int[Tensor, "B N"],
    *,
    pattern: Pattern = causal,
    score_change: ScoreChange | None = None,
) -> Float[Tensor, "B N"]:
    """The attention that each key receives from these queries."""
    received: Tensor = OP[OP.choose(q)](q, k, query_time, key_time, pattern, Scores(change=score_change))
    return received


def choose_backend(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "formed"


def sum_by_tiles(
    q: Tensor, k: Tensor, query_time: Tensor, key_time: Tensor, pattern: PatternLike, scores: Scores
) -> Tensor:
    """The backend `formed`: computes the weights of a tile of queries at a time, and sums them."""
    tile = max(1, AT_ONCE // max(q.shape[0] * q.shape[1] * k.shape[2], 1))
    if torch.compiler.is_compiling() or tile >= q.shape[2]:
        return _tile(q, k, query_time, key_time, pattern, scores)
    tiles = zip(q.split(tile, 2), query_time.split(tile, 1), strict=True)
    return torch.stack([_tile(q_tile, k, time, key_time, pattern, scores) for q_tile, time in tiles]).sum(0)


def _tile(q: Tensor, k: Tensor, query_time: Tensor, key_time: Tensor, pattern: PatternLike, scores: Scores) -> Tensor:
    """The attention (B, N) that each key receives from a tile of queries."""
    i, j = query_time[:, None, :, None], key_time[:, None, None, :]
    seen = pattern(i, j) & (j >= 0) & (i >= 0)
    z = scores.of(q, k, i, j).masked_fill(~seen, -torch.inf)
    z = z.masked_fill(~seen.any(-1, keepdim=True), 0.0)  # else the softmax of a query without keys would be NaN
    a = torch.where(seen, z.softmax(-1), 0.0)
    return a.mean(1).sum(1)


def _example(draw: Draw, B: int, T: int) -> Tensor:
    q, k = (draw(B, 4, T, CHANNELS // 4) for _ in range(2))
    time = q.new_ones(B, T).cumsum(1).long() - 1
    return usage(q, k, time, time)


OP = Op(
    "usage",
    {"reference": Backend(reference.usage), "formed": Backend(sum_by_tiles, plain=True)},
    rule=choose_backend,
    examples=(_example,),
    price=reference.price,
)
