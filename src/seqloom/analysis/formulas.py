"""The formulas of the Extractor paper's Tables 3-6, corrected, and as they were misprinted.

    d  dimension     T  length of a training sequence, the paper's l   t  position of a token     n  heads of attention

Each entry is printed twice: term by term (`expanded`) and summed up (`closed`). Both are corrected here;
`misprints` holds what a version of the text prints instead. Entries that are 0 are left out.

Source: Chen, arXiv:2308.07661, section 7; "000" and "003" are the two versions of its text. What differs is in
docs/errata.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Formula: TypeAlias = Callable[[int, int, int], int]
"""(d, T or t, n) → operations"""
Form: TypeAlias = Literal["expanded", "closed"]
Seed: TypeAlias = Literal["000", "003"]
Quantity: TypeAlias = Literal["mul", "add", "div", "exp", "params"]
Sublayer: TypeAlias = Literal["attention", "she", "he", "we", "me"]


@dataclass(frozen=True)
class FormulaEntry:
    """One formula of Tables 3-6."""

    table: int
    sublayer: Sublayer
    quantity: Quantity
    expanded: Formula
    closed: Formula
    misprints: dict[tuple[Seed, Form], Formula] = field(default_factory=dict)

    def printed_form(self, seed: Seed, form: Form) -> Formula:
        """The formula as a version of the paper prints it."""
        right = self.expanded if form == "expanded" else self.closed
        return self.misprints.get((seed, form), right)


def _over(T: int, term: Callable[[int], int]) -> int:
    return sum(term(t) for t in range(1, T + 1))


TRAINING = (
    FormulaEntry(
        3, "attention", "mul",
        lambda d, T, n: (3 * d * (d // n) * T + _over(T, lambda t: t * (d // n) + t * (d // n))) * n + d * d * T,
        lambda d, T, n: T * T * d + 4 * T * d * d + T * d,
    ),
    FormulaEntry(
        3, "attention", "add",
        lambda d, T, n: (
            _over(T, lambda t: t * (d // n - 1) + (t - 1) * (d // n) + (t - 1)) + 3 * (d - 1) * (d // n) * T
        ) * n + (d - 1) * d * T,
        lambda d, T, n: T * T * d + 4 * T * d * d - 4 * T * d - T * n,
    ),
    FormulaEntry(
        3, "attention", "div", lambda d, T, n: n * _over(T, lambda t: t + t), lambda d, T, n: n * T * T + n * T
    ),
    FormulaEntry(
        3, "attention", "exp", lambda d, T, n: n * _over(T, lambda t: t), lambda d, T, n: (n * T * T + n * T) // 2
    ),
    FormulaEntry(3, "attention", "params", lambda d, T, n: 3 * d * (d // n) * n + d * d, lambda d, T, n: 4 * d * d),
    FormulaEntry(
        3, "she", "mul",
        lambda d, T, n: _over(T, lambda t: d * d * t + d * d + d + d * d),
        lambda d, T, n: (T * T * d * d + 5 * T * d * d) // 2 + T * d,
        {("000", "expanded"): lambda d, T, n: _over(T, lambda t: d * d * t + d * d + d * d * d)},
    ),
    FormulaEntry(
        3, "she", "add",
        lambda d, T, n: _over(T, lambda t: (d - 1) * d * t + (t - 1) * d + (d - 1) * d + (d - 1) * d),
        lambda d, T, n: (T * T * d * d + 5 * T * d * d) // 2 - 3 * T * d,
    ),
    FormulaEntry(3, "she", "params", lambda d, T, n: d * d * T + d * d + d * d, lambda d, T, n: T * d * d + 2 * d * d),
    FormulaEntry(
        4, "he", "mul",
        lambda d, T, n: _over(T, lambda t: d * t + d * d + d + d * d) + d * d * T,
        lambda d, T, n: (T * T * d + 3 * T * d) // 2 + 3 * T * d * d,
    ),
    FormulaEntry(
        4, "he", "add",
        lambda d, T, n: _over(T, lambda t: (t - 1) * d + (d - 1) * d + (d - 1) * d) + (d - 1) * d * T,
        lambda d, T, n: 3 * T * d * d + (T * T * d - 7 * T * d) // 2,
    ),
    FormulaEntry(4, "he", "params", lambda d, T, n: d * T + d * d + d * d + d * d, lambda d, T, n: T * d + 3 * d * d),
    FormulaEntry(
        4, "we", "mul",
        lambda d, T, n: _over(T, lambda t: d * t + d * d + d + d * d),
        lambda d, T, n: (T * T * d + 3 * T * d) // 2 + 2 * T * d * d,
    ),
    FormulaEntry(
        4, "we", "add",
        lambda d, T, n: _over(T, lambda t: (t - 1) * d + (d - 1) * d + (d - 1) * d),
        lambda d, T, n: 2 * T * d * d + (T * T * d - 5 * T * d) // 2,
    ),
    FormulaEntry(4, "we", "params", lambda d, T, n: d * T + d * d + d * d, lambda d, T, n: T * d + 2 * d * d),
    FormulaEntry(4, "me", "mul", lambda d, T, n: _over(T, lambda t: d * t), lambda d, T, n: (T * T * d + T * d) // 2),
    FormulaEntry(
        4, "me", "add", lambda d, T, n: _over(T, lambda t: (t - 1) * d), lambda d, T, n: (T * T * d - T * d) // 2
    ),
    FormulaEntry(4, "me", "params", lambda d, T, n: T, lambda d, T, n: T),
)  # fmt: skip
"""Tables 3 and 4: one sequence of l tokens"""


def _without_bracket(d: int, t: int, n: int) -> int:
    return 2 * t * d - t * n + t + 4 * d * d - 5 * d - 1


INFERENCE = (
    FormulaEntry(
        5, "attention", "mul",
        lambda d, t, n: (3 * d * (d // n) + t * (d // n) + t * (d // n)) * n + d * d,
        lambda d, t, n: 2 * t * d + 4 * d * d,
    ),
    FormulaEntry(
        5, "attention", "add",
        lambda d, t, n: (3 * (d - 1) * (d // n) + t * (d // n - 1) + (t - 1) * (d // n) + (t - 1)) * n + (d - 1) * d,
        lambda d, t, n: 2 * t * d + 4 * d * d - 5 * d - n,
        {
            ("000", "expanded"): lambda d, t, n: (3 * (d - 1) * (d // n) + t * (d // n - 1) + (t - 1) * (d // n)) * n
            + (d - 1) * d,
            ("000", "closed"): _without_bracket,
            ("003", "closed"): _without_bracket,
        },
    ),
    FormulaEntry(5, "attention", "div", lambda d, t, n: (t + t) * n, lambda d, t, n: 2 * t * n),
    FormulaEntry(5, "attention", "exp", lambda d, t, n: t * n, lambda d, t, n: t * n),
    FormulaEntry(
        5, "she", "mul", lambda d, t, n: d * d * t + d * d + d + d * d, lambda d, t, n: t * d * d + 2 * d * d + d
    ),
    FormulaEntry(
        5, "she", "add",
        lambda d, t, n: (d - 1) * d * t + (t - 1) * d + (d - 1) * d + (d - 1) * d,
        lambda d, t, n: t * d * d + 2 * d * d - 3 * d,
    ),
    FormulaEntry(
        6, "he", "mul", lambda d, t, n: d * t + d * d + d * d + d + d * d, lambda d, t, n: t * d + 3 * d * d + d
    ),
    FormulaEntry(
        6, "he", "add",
        lambda d, t, n: (t - 1) * d + (d - 1) * d + (d - 1) * d + (d - 1) * d,
        lambda d, t, n: t * d + 3 * d * d - 4 * d,
    ),
    FormulaEntry(6, "we", "mul", lambda d, t, n: d * t + d * d + d + d * d, lambda d, t, n: t * d + 2 * d * d + d),
    FormulaEntry(
        6, "we", "add",
        lambda d, t, n: (t - 1) * d + (d - 1) * d + (d - 1) * d,
        lambda d, t, n: t * d + 2 * d * d - 3 * d,
    ),
    FormulaEntry(6, "me", "mul", lambda d, t, n: d * t, lambda d, t, n: t * d),
    FormulaEntry(6, "me", "add", lambda d, t, n: (t - 1) * d, lambda d, t, n: t * d - d),
)  # fmt: skip
"""Tables 5 and 6: one more token, at position t"""
