"""The contenders of the board and the five questions that it decides, fixed before anything was trained.

    ROWS        the contenders, with equal parameters: three rates with seed 0, then more seeds at the best rate
    BESIDE      further contenders, for scale: no mixing at all, and the smaller Extractors; runs as for ROWS
    BELOW       contenders that cannot have equal parameters: one run at the best rate of another contender
    DECISIONS   tested together (Holm's correction), five seeds per row. Every other difference is exploratory

This module needs no torch.
"""

from dataclasses import dataclass
from typing import final

from seqloom.experiments.contender import Contender

ATTENTION = "{kind: attention, heads: 4, kv_heads: 2}"
"""the mixer of board/small"""
RATES = (1e-3, 2e-3, 4e-3)
"""learning rates of every row; further rates follow by factors of 2 until the best is neither first nor last"""
SEEDS = 3
DECIDED_SEEDS = 5
"""seeds of the rows that a decision is about"""


def _three_to_one(kind: str) -> tuple[str, ...]:
    return (f"model.mixer=[{', '.join([f'{{kind: {kind}}}'] * 3)}, {ATTENTION}]",)


def _kind(kind: str) -> Contender:
    return Contender(kind, (f"model.mixer.kind={kind}",))


HOST = "attention"
ROWS = (
    Contender(HOST, ()),
    _kind("he"),
    _kind("gated_delta"),
    Contender("he-3-1", _three_to_one("he")),
    Contender("gated_delta-3-1", _three_to_one("gated_delta")),
    Contender("attention-convolution", ("model.mixer.kernel=4",)),
    Contender("attention-window", ("model.mixer.window=64",)),
    _kind("gla"),
    _kind("mamba2"),
    _kind("rwkv7"),
    _kind("mlstm"),
    _kind("gru"),
)
BESIDE = (_kind("identity"), _kind("we"), _kind("me"))
BELOW = {"she": "he"}
"""a contender with other parameters, and the contender whose best rate it is trained at"""
TITLES = {
    "attention": "llama attention",
    "he": "HE",
    "he-3-1": "HE 3 : attention 1",
    "gated_delta-3-1": "gated_delta 3 : attention 1",
    "attention-convolution": "llama attention, convolution of 4 on q, k, v",
    "attention-window": "llama attention, window 64",
    "we": "WE",
    "me": "ME",
    "she": "SHE (own size)",
}
"""titles of the contenders that have a title other than their kind"""


@final
@dataclass(frozen=True)
class Decision:
    """A question about two rows: which has fewer bits per byte on the test books, at equal parameters."""

    question: str
    first: str
    second: str


DECISIONS = (
    Decision("HE or llama attention at equal parameters?", "he", "attention"),
    Decision("gated_delta or llama attention at equal parameters?", "gated_delta", "attention"),
    Decision("HE in three of four layers, or attention in all?", "he-3-1", "attention"),
    Decision("gated_delta in three of four layers, or attention in all?", "gated_delta-3-1", "attention"),
    Decision("HE or gated_delta at equal parameters?", "he", "gated_delta"),
)
DECIDED = frozenset(name for decision in DECISIONS for name in (decision.first, decision.second))


def seeds(name: str) -> int:
    """The number of seeds of a row."""
    return DECIDED_SEEDS if name in DECIDED else SEEDS


def title(name: str) -> str:
    """A contender's name in tables."""
    return TITLES.get(name, name)
