"""Softmax attention over any pattern, with changes of its scores and of its values.

    z_ij = Σ_c q_ic k_jc e^{-f_c (i-j)} / √K,    then changed by `Scores`; f is `decay`, 0 by default
    a_ij = e^{z_ij} / Σ_{j'} e^{z_ij'}           over the j for which `pattern(i, j)` is True
    y_i  = Σ_j a_ij v_j + `value_change`(a)_i

i and j are the *times* of queries and keys, so that the same pattern applies to a sequence, a piece of it, and a ring.
Source: Vaswani et al., arXiv:1706.03762, Eq. 1; the Extractor paper's Eq. 13-15; f: xPos, arXiv:2212.10554. Nothing
differs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops import gpu as device
from seqloom.ops.attention import by_distance, fast, gpu, reference
from seqloom.ops.attention.scores import Bias, ScoreChange, Scores, ValueChange
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

__all__ = ["OP", "Bias", "Pattern", "around", "attend", "band_pattern", "causal", "everywhere", "weights"]

Pattern: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(query times (…, Tq, 1), key times (…, 1, Tk)) → True where the query attends to the key"""
DECAY_TILE = 1024
"""queries of a tile whose scores decay with distance, so that e^{f i} is computed for at most this many tokens"""


@final
@dataclass(frozen=True)
class Window:
    """Every query attends to itself, to `before` keys before it and to `after` keys after it; None for all."""

    before: int | None
    after: int | None

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        if self.before is None and self.after is None:
            return torch.ones_like(i + j, dtype=torch.bool)
        if self.before is None and self.after == 0:
            return j <= i
        visible = torch.ones_like(i + j, dtype=torch.bool) if self.before is None else i - j <= self.before
        return visible if self.after is None else visible & (j - i <= self.after)


causal: Pattern = Window(None, 0)
"""every query attends to its own position and to all before it"""
everywhere: Pattern = Window(None, None)
"""every query attends to all keys"""


def band_pattern(width: int | None) -> Pattern:
    """Every query attends to its own position and to the `width` - 1 before it; None for all before it."""
    return causal if width is None else Window(width - 1, 0)


def around(width: int) -> Pattern:
    """Every query attends to its own position and to those less than `width` away on both sides."""
    return Window(width - 1, width - 1)


def attend(
    q: Float[Tensor, "B H Tq K"],
    k: Float[Tensor, "B G Tk K"],
    v: Float[Tensor, "B G Tk V"],
    *,
    pattern: Pattern = causal,
    query_time: Int[Tensor, "B Tq"] | None = None,
    key_time: Int[Tensor, "B Tk"] | None = None,
    bias: Bias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
    decay: Float[Tensor, " K"] | None = None,
    score_change: ScoreChange | None = None,
    value_change: ValueChange | None = None,
) -> Float[Tensor, "B H Tq V"]:
    """Attention of each query over the keys for which `pattern` is True; H/G heads of queries share a head of keys.

    Times are 0, 1, … where they are not given; a key with a negative time is empty and hidden. The output of a query
    that sees no key is 0. All backends are differentiable; some do not support all changes. Scores are divided by √K
    unless `scale` is given. `decay` must not be negative in any channel. `Scores` describes the other changes.
    """
    if q.shape[2] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    scores = Scores(bias, scale, softcap, sinks, score_change, value_change)
    if decay is not None:
        return _attend_with_decay(q, k, v, decay, pattern, query_time, key_time, scores)
    return _attend(q, k, v, pattern, query_time, key_time, scores)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    query_time: Tensor | None,
    key_time: Tensor | None,
    scores: Scores,
) -> Tensor:
    whole_sequence = query_time is None and key_time is None and q.shape[2] == k.shape[2]
    plainly_causal = pattern is causal and whole_sequence
    backend = OP.choose(q, v.shape[3], scores, plainly_causal, isinstance(pattern, Window) and whole_sequence)
    if backend == "triton":
        return gpu.causal(q, k, v, scores.scale)
    if backend == "kernel":
        if pattern is everywhere and key_time is None:
            return fast.attend_unmasked(q, k, v, scores.scale)
        if plainly_causal:
            return fast.causal(q, k, v, scores.scale)
        return fast.kernel(q, k, v, pattern, query_time, key_time, scores.scale)
    if backend == "by_distance" and isinstance(pattern, Window) and whole_sequence:
        return by_distance.attend(q, k, v, scores, pattern.before, pattern.after)
    # `by_distance` takes whole sequences only; for a piece of one, `formed` computes the matrix of weights
    run = reference.attend if backend == "reference" else fast.attend_by_scores
    return run(q, k, v, pattern, query_time, key_time, scores)


def _attend_with_decay(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    pattern: Pattern,
    query_time: Tensor | None,
    key_time: Tensor | None,
    scores: Scores,
) -> Tensor:
    """Attention with `decay`, tile by tile. Time counts from a tile's first query, so that factors do not overflow."""
    i, j = fast.times(q, query_time), fast.times(k, key_time)
    rates = decay.to(torch.promote_types(q.dtype, torch.float32))
    single_tile = q.shape[2] <= DECAY_TILE
    outputs = []
    for start in range(0, q.shape[2], DECAY_TILE):
        tile = slice(start, start + DECAY_TILE)
        tile_time = i[:, tile]
        origin = tile_time[:, :1]
        decayed_q = q[:, :, tile] * torch.exp((origin - tile_time)[:, None, :, None] * rates)
        decayed_k = k * torch.exp((j - origin)[:, None, :, None] * rates)
        times = (query_time, key_time) if single_tile else (tile_time.expand(len(q), -1), j.expand(len(q), -1))
        outputs.append(_attend(decayed_q.to(q.dtype), decayed_k.to(k.dtype), v, pattern, *times, scores))
    return torch.cat(outputs, 2)


def weights(
    q: Float[Tensor, "B H Tq K"], k: Float[Tensor, "B G Tk K"], *, pattern: Pattern = causal, **changes: Any
) -> Float[Tensor, "B H Tq Tk"]:
    """The weights a_ij of the equation, for analysis and charts; 0 where a query does not see a key.

    `changes` are keyword arguments of `attend`; `value_change` has no effect on the weights.
    """
    tile_weights: list[Tensor] = []

    def collect(a: Tensor, i: Tensor, j: Tensor) -> Tensor:
        tile_weights.append(a.masked_fill(~pattern(i, j) | (j < 0), 0.0))  # 0 for hidden keys
        return a.new_zeros(*a.shape[:3], 1)

    with backends.use(attention="formed"):
        attend(q, k, k[..., :1], pattern=pattern, **{**changes, "value_change": collect})
    return torch.cat(tile_weights, 2)


def choose_backend(q: Tensor, V: int, scores: Scores, plainly_causal: bool, windowed: bool) -> str:
    """The fastest backend, as measured on 2 CPU cores (docs/log.md): for short rows in narrow heads it is `formed`.

    On a GPU it is `triton` in narrow heads, an estimate. V: channels of a value; `plainly_causal`: each token of a
    whole sequence attends to itself and to all before; `windowed`: the pattern is a `Window` over a whole sequence.
    """
    if not scores.plain:
        return "by_distance" if windowed and q.shape[2] > FORMED and by_distance.supports(q, scores) else "formed"
    if device.best(q.device) and _narrow(q, V, scores, plainly_causal, windowed):
        return "triton"
    short = q.device.type == "cpu" and q.shape[2] <= 32 and q.shape[3] <= 8
    return "formed" if plainly_causal and short and scores.scale is None else "kernel"


def _narrow(q: Tensor, V: int, scores: Scores, plainly_causal: bool, windowed: bool) -> bool:
    """Whether Triton's kernels for narrow heads support the call."""
    return scores.plain and plainly_causal and gpu.supports(q, V)


FORMED = 64
"""the most tokens for which weights with a bias are formed at once"""


def _causal(draw: Draw, B: int, T: int) -> Tensor:
    return attend(*(draw(B, 4, T, CHANNELS // 4) for _ in range(3)))


def _draw_banded(draw: Draw, B: int, T: int) -> Tensor:
    return attend(*(draw(B, 4, T, CHANNELS // 4) for _ in range(3)), pattern=band_pattern(3))


def _draw_biased(draw: Draw, B: int, T: int) -> Tensor:
    return attend(*(draw(B, 4, T, CHANNELS // 4) for _ in range(3)), bias=Bias(draw(4, 6)), sinks=draw(4))


OP = Op(
    "attention",
    {
        "reference": Backend(reference.attend),
        "kernel": Backend(fast.kernel, fits=lambda q, V, scores, *_: scores.plain),
        "formed": Backend(fast.attend_by_scores, plain=True),
        "by_distance": Backend(by_distance.attend, fits=lambda q, V, scores, *_: by_distance.supports(q, scores)),
        "triton": Backend(gpu.causal, device.unavailable, _narrow),
    },
    rule=choose_backend,
    examples=(_causal, _draw_banded, _draw_biased),
    price=reference.price,
)
