"""Seed 004's Table I: the time and space of a layer over the length n and the width d.

Source: the survey "Computationally Efficient Architectures for NLP" (seed 004), which takes it from RWKV's paper (Peng
et al., arXiv:2305.13048, Table 1) and Mamba's. Where its formulas hold and where not is in docs/errata.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Formula: TypeAlias = Callable[[int, int], float]
"""(n, d) → a number that grows like the formula"""


@dataclass(frozen=True)
class Claim:
    """A row: the printed formulas, and the mixer that they are about."""

    system: str
    time: Formula
    space: Formula
    settings: Callable[[int], dict[str, Any]]
    """d → the mixer's settings"""
    backends: dict[str, str] = field(default_factory=dict)
    """the form that is measured; the rows are of one form on every machine"""


def _square(n: int, d: int) -> float:
    return n * n * d


def _line(n: int, d: int) -> float:
    return n * d


def _width(n: int, d: int) -> float:
    return d


def _features(d: int) -> int:
    """m = d log d, the number of random features for which the paper states n m d operations of the Performer."""
    return max(1, round(d * math.log(d)))


TABLE_I = (
    Claim(
        "Transformer",
        _square,
        lambda n, d: n * n + n * d,
        lambda d: {"kind": "attention", "heads": 1},
        {"attention": "formed"},
    ),
    Claim(
        "Reformer",
        lambda n, d: n * math.log(n) * d,
        lambda n, d: n * math.log(n) + n * d,
        lambda d: {"kind": "reformer", "heads": 1, "rounds": 1, "buckets": 64},
        {"bucketing": "chunks"},
    ),
    Claim(
        "Performer",
        lambda n, d: n * d * d * math.log(d),
        lambda n, d: (n * d + d * d) * math.log(d),
        lambda d: {"kind": "performer", "heads": 1, "features": _features(d)},
        {"linear_decay": "chunked"},
    ),
    Claim("AFT", _square, _line, lambda d: {"kind": "aft_full", "bias_dim": 0}, {"biased_average": "blocks"}),
    Claim("RWKV", _line, _width, lambda d: {"kind": "rwkv"}, {"wkv_average": "sequential"}),
    Claim("Mamba", _line, _width, lambda d: {"kind": "mamba"}, {"selective_scan": "sequential"}),
)

VARIANTS = (
    Claim(
        "Transformer, tiled",
        _square,
        lambda n, d: n * n + n * d,
        lambda d: {"kind": "attention", "heads": 1},
        {"attention": "kernel"},
    ),
    Claim("AFT-full, factors", _square, _line, lambda d: {"kind": "aft_full", "bias_dim": 16}),
    Claim("AFT-local", _square, _line, lambda d: {"kind": "aft_local", "window": 32, "bias_dim": 16}),
    Claim(
        "AFT-conv",
        _square,
        _line,
        lambda d: {"kind": "aft_conv", "heads": 1, "window": 32},
        {"biased_average": "lags", "lag_sum": "direct"},
    ),
    Claim("AFT-simple", _square, _line, lambda d: {"kind": "aft_simple"}, {"wkv_average": "sequential"}),
)
"""the same rows, for other members of the family or another form"""
