"""Which mixer for which need, by rules over the rows of contenders and nothing else.

A need asks for the least (or most) of a column among the rows that qualify. Rows that cannot be distinguished from it
are tied with it: held-out losses whose difference to the lowest is not significant (core/statistics.py, Holm over the
rows that qualify); times within a tenth; shares of right answers within 0.02; sizes only where they are equal. Held-out
losses of one run have no interval, so that nothing says which are tied: the next ones are listed instead.

    needs(measured(comparison))     those of a comparison, in its report
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from seqloom.core.statistics import differences
from seqloom.core.table import format_cell
from seqloom.report.comparison import LOSS
from seqloom.report.measured import PEAK, RIGHT, STATE, STATE_AT, STEP, TIME_AT, TOKEN, Measured

TIE = {"time": 0.1, "right": 0.02}
"""a share of the lower time; a difference of shares"""
NEXT = 5
"""rows that are listed after the lowest loss where each is of one run"""
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
class Quantity:
    """A number of a contender, its heading, and which values cannot be distinguished from the best one."""

    heading: str
    of: Callable[[Measured], float | None]
    is_tied: Callable[[float, float], bool]
    """(value, best value) → whether they are tied"""
    share: bool = False
    """whether it is written in percent"""

    def text(self, row: Measured) -> str:
        """The number of a row as text."""
        value = self.of(row)
        return f"{value:.1%}" if self.share and value is not None else format_cell(value)


def is_equal(value: float, best: float) -> bool:
    """Sizes are tied where they are equal."""
    return value == best


def is_as_fast(value: float, best: float) -> bool:
    """Times are tied within a share of the lower one."""
    return value <= best + TIE["time"] * abs(best)


def is_as_right(value: float, best: float) -> bool:
    """Shares of right answers are tied within a difference."""
    return best - value <= TIE["right"]


HELD_OUT = Quantity(LOSS, lambda row: row.held_out, is_equal)


@final
@dataclass(frozen=True)
class Need:
    """What is asked for, the rule in words, and the rows that it takes: the best first, then those tied with it.

    Of held-out losses of one run each the others are those that come next.
    """

    name: str
    rule: str
    quantity: Quantity
    taken: list[Measured]
    one_run: bool = False

    @property
    def best(self) -> str:
        """The name of the first of them."""
        return self.taken[0].contender

    @property
    def details(self) -> str:
        """Its number, and who is tied with it or comes next."""
        first, *others = self.taken
        text = self.quantity.text(first)
        text = f"({text}, one run)" if self.one_run else f"({text})"
        if not others:
            return text
        names = [f"{row.contender} ({self.quantity.text(row)})" for row in others]
        if len(names) > MANY:
            names[MANY:] = [f"{len(names) - MANY} more"]
        return f"{text}; {'next' if self.one_run else 'tied'}: {', '.join(names)}"


def needs(rows: Sequence[Measured]) -> list[Need]:
    """Every need that the rows have the numbers for."""
    lowest = min((row.held_out for row in rows if row.held_out is not None), default=0.0)
    limit = lowest + NEAR * abs(lowest)
    near_lowest = [row for row in rows if row.held_out is not None and row.held_out <= limit]
    among = f"among those within {NEAR:.0%} of the lowest held-out loss"
    step = Quantity(STEP, lambda row: row.step_ms, is_as_fast)
    peak = Quantity(PEAK, lambda row: row.peak_mb, is_equal)
    longest = farthest(rows)
    time, state = token_and_state(longest)
    token = f"token after {longest:,} tokens" if longest else "generated token"
    candidates = [
        _need("the lowest loss on held-out text", HELD_OUT, rows),
        _need("the cheapest training step, at nearly the lowest loss", step, near_lowest, among),
        _need("the least memory in training, at nearly the lowest loss", peak, near_lowest, among),
        _need(f"the fastest {token}", time, rows),
        _need(f"the fastest {token}, at nearly the lowest loss", time, near_lowest, among),
        _need("the smallest state", state, rows),
        _need("a small state, at nearly the lowest loss", state, near_lowest, among),
        _need("a state of constant size, and the lowest loss", HELD_OUT, constant(rows), "among states of equal size"),
        *(_need(words, right_answers(probe), rows, most=True) for probe, words in PROBES.items()),
    ]
    return [need for need in candidates if need is not None]


def token_and_state(length: int) -> tuple[Quantity, Quantity]:
    """The time of a token and the size of the state after `length` tokens; 0: those of a window."""
    if not length:
        return Quantity(TOKEN, lambda row: row.token_ms, is_as_fast), Quantity(
            STATE, lambda row: row.state_bytes, is_equal
        )
    return (
        Quantity(f"{TIME_AT}{length:,}", lambda row: row.token_ms_at.get(length), is_as_fast),
        Quantity(f"{STATE_AT}{length:,}", lambda row: row.state_bytes_at.get(length), is_equal),
    )


def right_answers(probe: str) -> Quantity:
    """The share of right answers of a probe."""
    return Quantity(f"{probe}{RIGHT}", lambda row: row.right.get(probe), is_as_right, share=True)


def farthest(rows: Sequence[Measured]) -> int:
    """The greatest length after which most contenders have a time; 0 where there is none."""
    lengths = {length for row in rows for length in row.token_ms_at}
    by_most = [n for n in lengths if sum(row.token_ms_at.get(n) is not None for row in rows) > len(rows) / 2]
    return max(by_most, default=0)


def constant(rows: Sequence[Measured]) -> list[Measured]:
    """The rows whose state was measured after several lengths and has the same size after all of them."""
    sizes = [list(row.state_bytes_at.values()) for row in rows]
    return [
        row
        for row, sizes_of_row in zip(rows, sizes, strict=True)
        if len(sizes_of_row) > 1 and None not in sizes_of_row and len(set(sizes_of_row)) == 1
    ]


def _need(
    name: str, quantity: Quantity, rows: Sequence[Measured], among: str = "", *, most: bool = False
) -> Need | None:
    """The need for the least of a quantity, or for the `most`; None where no row has it."""
    sign = -1 if most else 1
    values = [(row, value) for row in rows if (value := quantity.of(row)) is not None]
    if not values:
        return None
    values.sort(key=lambda pair: (sign * pair[1], pair[0].held_out or 0.0, pair[0].contender))
    ranked = [row for row, _ in values]
    rule = " ".join(filter(None, ("most" if most else "least", f"`{quantity.heading}`", among)))
    if quantity is not HELD_OUT:
        best = values[0][1]
        return Need(name, rule, quantity, [row for row, value in values if quantity.is_tied(value, best)])
    if all(len(row.losses) == 1 for row in ranked):
        return Need(name, rule, quantity, ranked[: 1 + NEXT], one_run=True)
    return Need(name, rule, quantity, [ranked[0], *_not_significant(ranked)])


def _not_significant(ranked: Sequence[Measured]) -> list[Measured]:
    """The rows whose difference to the first one is not significant."""
    runs = {row.contender: dict(enumerate(row.losses)) for row in ranked}
    to_first = differences(runs, dict.fromkeys(runs, ranked[0].contender), paired=ranked[0].paired)
    worse = {name for name, difference in to_first.items() if difference.word == "higher"}
    return [row for row in ranked[1:] if row.contender not in worse]
