"""The table of all contenders: the text of its cells, the best values, and the groups of its rows."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from seqloom.report.comparison import LOSS, Candidate, Column, Comparison


@final
@dataclass(frozen=True)
class Cell:
    """A cell: its text, the number that it is sorted by, and whether it is the best of its column."""

    text: str
    value: float | int | None
    best: bool


@final
@dataclass(frozen=True)
class Row:
    """A contender; those that are matched to it have the same `group`, and `under` is True for them."""

    contender: Candidate
    group: int
    under: bool
    cells: list[Cell]


def rows(comparison: Comparison) -> list[Row]:
    """All contenders by held-out loss, the matched ones beneath those that they were sized for."""
    ranked = sorted(comparison.contenders, key=lambda contender: _order(contender.value(LOSS)))
    names = {contender.name for contender in ranked}
    leaders = [
        contender for contender in ranked if contender.matched_to not in names or contender.matched_to == contender.name
    ]
    styles = {
        column.name: _style(column, [contender.value(column.name) for contender in ranked])
        for column in comparison.columns
    }
    table_rows = []
    for group, leader in enumerate(leaders):
        matched = [
            contender for contender in ranked if contender not in leaders and _root(contender, comparison) is leader
        ]
        table_rows += [_row(contender, group, contender is not leader, styles) for contender in [leader, *matched]]
    row_names = {row.contender.name for row in table_rows}
    # contenders that were sized for each other in a circle have no leader
    in_circles = [contender for contender in ranked if contender.name not in row_names]
    return [
        *table_rows,
        *(_row(contender, len(leaders) + number, False, styles) for number, contender in enumerate(in_circles)),
    ]


def as_csv(comparison: Comparison) -> str:
    """The table with all digits; unknown values are empty."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["contender", "kind", "matched_to", "matched", *(column.title for column in comparison.columns)])
    for row in rows(comparison):
        contender = row.contender
        numbers = [contender.value(column.name) for column in comparison.columns]
        lines.writerow([contender.name, contender.kind, contender.matched_to, contender.matched, *numbers])
    return out.getvalue()


def _row(contender: Candidate, group: int, under: bool, styles: Mapping[str, tuple[int, float | None]]) -> Row:
    cells = []
    for name, (digits, best) in styles.items():
        value = contender.value(name)
        text = "–" if value is None else f"{value:,.{digits}f}"
        cells.append(Cell(text, value, value is not None and value == best))
    return Row(contender, group, under, cells)


def _root(contender: Candidate, comparison: Comparison) -> Candidate:
    """The contender at the end of the chain of `matched_to`; in a circle, where it was entered."""
    by_name = {contender.name: contender for contender in comparison.contenders}
    chain = [contender]
    while (target := by_name.get(chain[-1].matched_to or "")) is not None and target not in chain:
        chain.append(target)
    return chain[-1]


def _style(column: Column, values: Sequence[float | None]) -> tuple[int, float | None]:
    """The decimals of a column, and its best value; None without an order of merit or where no two values differ.

    Decimals are the same in a whole column, so that its numbers line up: three for numbers of one digit, fewer for
    larger ones, more where the largest is below 0.01.
    """
    known = [value for value in values if value is not None]
    largest = max((abs(value) for value in known), default=0.0)
    best = None
    if column.better and len(set(known)) > 1:
        best = min(known) if column.better == "lower" else max(known)
    if largest >= 1000 or all(float(value).is_integer() for value in known):
        return 0, best
    power = math.floor(math.log10(largest))
    decimals = 3 - power if power >= 0 else min(9, 3 + max(0, -2 - power))
    return decimals, best


def _order(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0
