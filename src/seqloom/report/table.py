"""The table of all contenders: what stands in each cell, which values are the best, and how the rows are grouped."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from seqloom.report.comparison import LOSS, Column, Comparison, Contender


@final
@dataclass(frozen=True)
class Cell:
    """One number as it is read, as it is sorted, and whether none in its column is better."""

    text: str
    value: float | int | None
    best: bool


@final
@dataclass(frozen=True)
class Row:
    """A contender; `group` is shared with those that are matched to it, `under` where it stands beneath another one."""

    contender: Contender
    group: int
    under: bool
    cells: list[Cell]


def rows(found: Comparison) -> list[Row]:
    """All contenders by held-out loss, the matched ones beneath those they stand beside."""
    ranked = sorted(found.contenders, key=lambda each: _order(each.value(LOSS)))
    names = {each.name for each in ranked}
    leaders = [each for each in ranked if each.beside not in names or each.beside == each.name]
    styles = {column.name: _style(column, [each.value(column.name) for each in ranked]) for column in found.columns}
    made = []
    for group, leader in enumerate(leaders):
        beneath = [each for each in ranked if each not in leaders and _root(each, found) is leader]
        made += [_row(each, group, each is not leader, styles) for each in [leader, *beneath]]
    placed = {row.contender.name for row in made}
    alone = [each for each in ranked if each.name not in placed]  # those that stand beside each other in a circle
    return [*made, *(_row(each, len(leaders) + at, False, styles) for at, each in enumerate(alone))]


def as_csv(found: Comparison) -> str:
    """The table with all digits; unknown values are empty."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["contender", "kind", "beside", "matched", *(column.name for column in found.columns)])
    for row in rows(found):
        each = row.contender
        numbers = [each.value(column.name) for column in found.columns]
        lines.writerow([each.name, each.kind, each.beside, each.matched, *numbers])
    return out.getvalue()


def _row(each: Contender, group: int, under: bool, styles: Mapping[str, tuple[int, float | None]]) -> Row:
    cells = []
    for name, (digits, best) in styles.items():
        value = each.value(name)
        text = "–" if value is None else f"{value:,.{digits}f}"
        cells.append(Cell(text, value, value is not None and value == best))
    return Row(each, group, under, cells)


def _root(each: Contender, found: Comparison) -> Contender:
    """The contender at the end of the chain of `beside`; in a circle, where it was entered."""
    by_name = {one.name: one for one in found.contenders}
    seen = [each]
    while (after := by_name.get(seen[-1].beside or "")) is not None and after not in seen:
        seen.append(after)
    return seen[-1]


def _style(column: Column, values: Sequence[float | None]) -> tuple[int, float | None]:
    """The decimals of a column, and its best value; None without an order of merit or where no two values differ.

    Decimals are the same in a whole column, so that its numbers line up: three for numbers of one digit, fewer for
    larger ones, more where the largest is below 0.01.
    """
    known = [value for value in values if value is not None]
    largest = max((abs(value) for value in known), default=0.0)
    best = None if not column.better or len(set(known)) < 2 else min(known) if column.better == "lower" else max(known)
    if largest >= 1000 or all(float(value).is_integer() for value in known):
        return 0, best
    size = math.floor(math.log10(largest))
    return (3 - size if size >= 0 else min(9, 3 + max(0, -2 - size))), best


def _order(value: float | None) -> tuple[bool, float]:
    return value is None, value or 0.0
