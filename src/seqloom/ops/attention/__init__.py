"""Softmax attention over any pattern, with changes to its scores and to its values.

    z_ij = q_i · k_j / √K,   changed by `score_change`
    a_ij = e^{z_ij} / Σ_{j'} e^{z_ij'}      over the j that `pattern(i, j)` lets through
    y_i  = Σ_j a_ij v_j + `value_change`(a)_i

i and j are the *times* of queries and keys, so that a pattern reads the same on a whole sequence, a piece, or a ring.
Source: Vaswani et al., arXiv:1706.03762, Eq. 1; the Extractor paper's Eq. 13-15. Nothing differs.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.attention import fast, price, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

Pattern: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""(query times (…, Tq, 1), key times (…, 1, Tk)) → True where the query may look"""
ScoreChange: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(scores (B, H, Tq, Tk), query times, key times) → scores of the same shape"""
ValueChange: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(weights (B, H, Tq, Tk), query times, key times) → what is added to the output (B, H, Tq, V)"""


def causal(i: Tensor, j: Tensor) -> Tensor:
    """Every query looks at its own place and at all before it."""
    return j <= i


def everywhere(i: Tensor, j: Tensor) -> Tensor:
    """Every query looks at all keys."""
    return torch.ones_like(i + j, dtype=torch.bool)


def banded(width: int | None) -> Pattern:
    """Every query looks at its own place and at the `width` - 1 before it; None for all before it."""
    if width is None:
        return causal

    def pattern(i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i - j < width)

    return pattern


def around(width: int) -> Pattern:
    """Every query looks at its own place and at those less than `width` away on both sides."""

    def pattern(i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() < width

    return pattern


def attend(
    q: Float[Tensor, "B H Tq K"],
    k: Float[Tensor, "B G Tk K"],
    v: Float[Tensor, "B G Tk V"],
    *,
    pattern: Pattern = causal,
    score_change: ScoreChange | None = None,
    value_change: ValueChange | None = None,
    query_time: Int[Tensor, "B Tq"] | None = None,
    key_time: Int[Tensor, "B Tk"] | None = None,
) -> Float[Tensor, "B H Tq V"]:
    """Attention of each query over the keys that `pattern` lets through; H/G heads of queries share a head of keys.

    Times are 0, 1, … where they are not given; a key with a negative time is empty and never looked at. A query that
    may look at nothing gives 0. All backends are differentiable; changes need `formed` or `reference`.
    """
    changed = score_change is not None or value_change is not None
    whole = pattern is causal and query_time is None and key_time is None and q.shape[2] == k.shape[2]
    path = OP.choose(q, changed, whole)
    if q.shape[2] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    if path == "kernel":
        if pattern is everywhere and key_time is None:
            return fast.unmasked(q, k, v)
        return fast.causal(q, k, v) if whole else fast.kernel(q, k, v, pattern, query_time, key_time)
    y: Tensor = OP[path](q, k, v, pattern, score_change, value_change, query_time, key_time)
    return y


def weights(
    q: Float[Tensor, "B H Tq K"], k: Float[Tensor, "B G Tk K"], *, pattern: Pattern = causal
) -> Float[Tensor, "B H Tq Tk"]:
    """The a_ij of the equation, to be looked at: how much each query takes of each key; 0 where it may not look."""
    looked: list[Tensor] = []

    def look(a: Tensor, i: Tensor, j: Tensor) -> Tensor:
        looked.append(a)
        return a.new_zeros(*a.shape[:3], 1)

    with backends.use(attention="formed"):
        attend(q, k, k[..., :1], pattern=pattern, value_change=look)
    return looked[0]


def by_size(q: Tensor, changed: bool, whole: bool) -> str:
    """The fastest backend: short rows in narrow heads form their weights, as measured on 2 CPU cores (docs/log.md).

    `changed` is whether scores or values are, `whole` whether each place looks at itself and all before it.
    """
    short = q.device.type == "cpu" and q.shape[2] <= 32 and q.shape[3] <= 8
    return "formed" if changed or (whole and short) else "kernel"


def _causal(draw: Draw, B: int, T: int) -> Tensor:
    return attend(*(draw(B, 4, T, CHANNELS // 4) for _ in range(3)))


def _banded(draw: Draw, B: int, T: int) -> Tensor:
    return attend(*(draw(B, 4, T, CHANNELS // 4) for _ in range(3)), pattern=banded(3))


OP = Op(
    "attention",
    {
        "reference": Backend(reference.attend),
        "kernel": Backend(fast.kernel, fits=lambda q, changed, whole: not changed),
        "formed": Backend(fast.formed),
    },
    rule=by_size,
    examples=(_causal, _banded),
    price=price,
)
