"""Verdicts on claims: they hold, do not hold, or are not settled, by the intervals of spreads.py."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from docs.making.paper.spreads import Column, Contrast, Estimate, Spread, Word, estimate
from seqloom.report.plates.rows import Plate

MOST = 3
"""differences that are all shown; of more, the one that is nearest to failing"""
Rule: TypeAlias = Callable[[Plate], Sequence[Contrast]]
"""makes of a study what a claim says is below 0; a line that the study does not have is as one that is unfinished"""


@final
@dataclass(frozen=True)
class Verdict:
    """What follows for a claim, why not more, and what was measured; `seeds` is 0 where nothing was."""

    word: Word
    why: str = ""
    said: str = ""
    seeds: int = 0

    def __str__(self) -> str:
        """All of it, in Markdown."""
        return f"**{self.word}**" + (f" ({self.why})" if self.why else "") + (f": {self.said}" if self.said else "")


UNMEASURED = Verdict("not settled", "not measured yet")


def judge(rule: Rule, plate: Plate, column: Column, lent: Spread | None) -> Verdict:
    """A claim holds where all contrasts of its rule do, and does not where one does not, whatever else is missing."""
    rules = rule(plate)
    found = [estimate(each, plate, column, lent) for each in rules]
    known = [each for each in found if each is not None]
    there = {(line.series, line.x) for line in plate.lines}
    missing = "unfinished" if all(each.weights.keys() <= there for each in rules) else "not all its models were run"
    if not known:
        return Verdict("not settled", missing)
    words, seeds = [each.word for each in known], min(each.seeds for each in known)
    one = "one seed" if seeds == 1 else ""
    if "does not hold" in words:
        return Verdict("does not hold", one, _said(known), seeds)
    if len(known) < len(found):
        return Verdict("not settled", missing, _said(known), seeds)
    if "not settled" in words:
        return Verdict("not settled", one or "an interval has 0 in it", _said(known), seeds)
    return Verdict("holds", one, _said(known), seeds)


def _said(known: Sequence[Estimate]) -> str:
    if len(known) <= MOST:
        return "; ".join(each.said for each in known)
    nearest = max(known, key=lambda each: each.mean / (each.half or 1))
    so = sum(each.word == "holds" for each in known)
    return f"{so} of {len(known)} so; the least: {nearest.said}"
