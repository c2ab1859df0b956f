"""The Extractor paper's Tables 3-7: what a sublayer costs by formula, to compare with what it costs here.

Source: Chen, arXiv:2308.07661, section 7. The formulas, and what is corrected in them, are in `formulas`.
"""

from collections.abc import Iterable

from seqloom.analysis.formulas import INFERENCE, TRAINING, FormulaEntry, Sublayer
from seqloom.core.cost import Cost

COLUMNS: tuple[tuple[Sublayer, int], ...] = (
    ("attention", 1), ("attention", 32), ("she", 1), ("he", 1), ("we", 1), ("me", 1)
)  # fmt: skip
"""sublayer and heads of each column of Table 7"""

TABLE_7: dict[str, tuple[int, ...]] = {
    "mul": (10_502_144, 10_502_144, 139_476_992, 7_364_608, 5_267_456, 1_056_768),
    "add": (10_420_096, 10_416_128, 139_411_456, 7_282_688, 5_201_920, 1_040_384),
    "div": (16_512, 528_384, 0, 0, 0, 0),
    "exp": (8_256, 264_192, 0, 0, 0, 0),
    "params": (65_536, 65_536, 2_129_920, 65_536, 49_152, 128),
    "total": (20_947_008, 21_710_848, 278_888_448, 14_647_296, 10_469_376, 2_097_152),
}
"""Table 7 as both versions print it, for d = 128 and sequences of 128 tokens: rows by columns"""


def training(sublayer: Sublayer, d: int, T: int, n: int = 1) -> Cost:
    """Tables 3 and 4: the cost of a sublayer for one sequence of T tokens. Heads n matter to attention alone."""
    return _cost(TRAINING, sublayer, (d, T, n))


def inference(sublayer: Sublayer, d: int, t: int, n: int = 1) -> Cost:
    """Tables 5 and 6, corrected: the cost of one more token, at position t."""
    return _cost(INFERENCE, sublayer, (d, t, n))


def table7(d: int = 128, T: int = 128) -> dict[str, tuple[int, ...]]:
    """Table 7 from the formulas, for any sizes: each row a tuple over `COLUMNS`."""
    costs = [training(sublayer, d, T, n) for sublayer, n in COLUMNS]
    return {row: tuple(int(getattr(cost, row)) for cost in costs) for row in TABLE_7}


def _cost(entries: Iterable[FormulaEntry], sublayer: Sublayer, sizes: tuple[int, int, int]) -> Cost:
    counts: dict[str, int] = {entry.quantity: entry.closed(*sizes) for entry in entries if entry.sublayer == sublayer}
    return Cost(**counts)  # type: ignore[arg-type]  # a Quantity is never the name of the path
