"""Which mixer for which need, by rules over the rows of contenders and nothing else.

A need asks for the least (or most) of a column among the rows that qualify. Rows that cannot be distinguished from it
are tied with it: held-out losses whose difference to the lowest is not settled (core/statistics.py, Holm over the rows
that qualify); times within a tenth; shares of right answers within 0.02; sizes only where they are equal. Held-out
losses of one seed were observed once, so that nothing says which are tied: the next ones are listed instead.

    needs(rows_of(comparison))      those of a comparison; docs/choose.md has those of all mixers
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from seqloom.core.statistics import differences
from seqloom.core.table import written
from seqloom.report.comparison import LOSS, Comparison

Row: TypeAlias = dict[str, Any]
LOSSES, TIME, STATE = "held-out losses", "ms a token at ", "state bytes at "
"""columns; `LOSSES` are the held-out losses of the seeds, in order"""
TIE = {"time": 0.1, "right": 0.02}
"""a share of the lower time; a difference of shares"""
NEXT = 5
"""rows that are listed after the lowest loss where each was observed once"""
NEAR = 0.02
"""how far above the lowest held-out loss a mixer may be where something else is asked for, too"""
MANY = 6
"""tied names that are listed; of more, the number is given"""
PROBES = {
    "mqar": "recall of pairs that were seen once",
    "induction": "continuing what occurred before",
    "copying": "repeating a text",
    "selective-copying": "repeating the marked words of a text",
    "parity": "the parity of all bits so far",
    "compression": "storing a sequence in one position",
    "needle": "finding a fact in a long text",
}


@final
@dataclass(frozen=True)
class Need:
    """What is asked for, the rule in words, and the rows that it takes: the best first, then those tied with it.

    Of held-out losses that were `observed_once` the others are those that come next.
    """

    name: str
    rule: str
    column: str
    taken: list[Row]
    observed_once: bool = False

    @property
    def best(self) -> str:
        """The name of the first of them."""
        return str(self.taken[0]["contender"])

    @property
    def details(self) -> str:
        """Its number, and who is tied with it or comes next."""
        first, *others = self.taken
        text = cell(self.column, first[self.column])
        text = f"({text}, observed once)" if self.observed_once else f"({text})"
        if not others:
            return text
        names = [f"{row['contender']} ({cell(self.column, row[self.column])})" for row in others]
        if len(names) > MANY:
            names[MANY:] = [f"{len(names) - MANY} more"]
        return f"{text}; {'next' if self.observed_once else 'tied'}: {', '.join(names)}"


def cell(column: str, value: float | None) -> str:
    """A number of a column as text; shares of right answers in percent."""
    return f"{value:.1%}" if value is not None and column.endswith(" right") else written(value)


def rows_of(comparison: Comparison) -> list[Row]:
    """The row of each contender of a comparison."""
    return [
        {
            "contender": contender.name,
            "paired": comparison.paired,
            **contender.row,
            LOSSES: [loss for loss in contender.spread.get(LOSS, [contender.value(LOSS)]) if loss is not None],
        }
        for contender in comparison.contenders
    ]


def needs(rows: Sequence[Row]) -> list[Need]:
    """Every need that the rows have the columns for."""
    losses = [row[LOSS] for row in rows if row.get(LOSS) is not None]
    lowest = min(losses, default=0.0)
    limit = lowest + NEAR * abs(lowest)
    near_lowest = [row for row in rows if row.get(LOSS) is not None and row[LOSS] <= limit]
    among = f"among those within {NEAR:.0%} of the lowest held-out loss"
    longest = farthest(rows)
    time, state = (f"{TIME}{longest:,}", f"{STATE}{longest:,}") if longest else ("ms a generated token", "state bytes")
    token = f"token after {longest:,} tokens" if longest else "generated token"
    candidates = [
        _need("the lowest loss on held-out text", LOSS, rows),
        _need("the cheapest training step, at nearly the lowest loss", "ms a step", near_lowest, among),
        _need("the least memory in training, at nearly the lowest loss", "peak MB a step", near_lowest, among),
        _need(f"the fastest {token}", time, rows),
        _need(f"the fastest {token}, at nearly the lowest loss", time, near_lowest, among),
        _need("the smallest state", state, rows),
        _need("a small state, at nearly the lowest loss", state, near_lowest, among),
        _need("a state of constant size, and the lowest loss", LOSS, constant(rows), "among states of equal size"),
        *(_need(words, f"{name} right", rows, most=True) for name, words in PROBES.items()),
    ]
    return [need for need in candidates if need is not None]


def farthest(rows: Sequence[Row]) -> int:
    """The greatest length after which most contenders have a time; 0 where there is none."""
    names = {name for row in rows for name in row if name.startswith(TIME)}
    measured_by_most = [name for name in names if sum(row.get(name) is not None for row in rows) > len(rows) / 2]
    return max((int(name.removeprefix(TIME).replace(",", "")) for name in measured_by_most), default=0)


def constant(rows: Sequence[Row]) -> list[Row]:
    """The rows whose state was measured after several lengths and has the same size after all of them."""
    sizes = [[value for name, value in row.items() if name.startswith(STATE)] for row in rows]
    return [
        row
        for row, sizes_of_row in zip(rows, sizes, strict=True)
        if len(sizes_of_row) > 1 and None not in sizes_of_row and len(set(sizes_of_row)) == 1
    ]


def tied(row: Row, best: Row, column: str) -> bool:
    """Whether a row cannot be distinguished from the best one, in a column that is no loss."""
    value, best_value = row[column], best[column]
    if column.startswith("ms "):
        return bool(value <= best_value + TIE["time"] * abs(best_value))
    return bool(best_value - value <= TIE["right"]) if column.endswith(" right") else value == best_value


def _need(name: str, column: str, rows: Sequence[Row], among: str = "", *, most: bool = False) -> Need | None:
    """The need for the least of a column, or for the `most`; None where no row has the column."""
    ranked = [row for row in rows if row.get(column) is not None]
    if not ranked:
        return None
    sign = -1 if most else 1
    ranked.sort(key=lambda row: (sign * row[column], row.get(LOSS) or 0.0, row["contender"]))
    rule = " ".join(filter(None, ("most" if most else "least", f"`{column}`", among)))
    if column != LOSS:
        return Need(name, rule, column, [row for row in ranked if tied(row, ranked[0], column)])
    if all(len(row[LOSSES]) == 1 for row in ranked):
        return Need(name, rule, column, ranked[: 1 + NEXT], observed_once=True)
    return Need(name, rule, column, [ranked[0], *_not_settled(ranked)])


def _not_settled(ranked: Sequence[Row]) -> list[Row]:
    """The rows whose difference to the first one is not settled."""
    runs = {row["contender"]: dict(enumerate(row[LOSSES])) for row in ranked}
    to_first = differences(runs, dict.fromkeys(runs, ranked[0]["contender"]), paired=ranked[0]["paired"])
    settled = {name for name, difference in to_first.items() if difference.word == "higher"}
    return [row for row in ranked[1:] if row["contender"] not in settled]
