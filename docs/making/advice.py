"""A line of docs/choose.md: what to take for a need, by which rows, and where that loses.

One rule for all lines: a recommendation needs a decision of the comparison that is significant (by_decisions.py), a
probe that is solved (by_probes.py), or times of one race whose quartiles do not overlap (by_races.py). Without one the
line says "no clear difference".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

UNCLEAR = "no clear difference"


@final
@dataclass(frozen=True)
class Advice:
    """What to take for a need."""

    need: str
    take: str
    evidence: str
    """with the number of runs"""
    loses: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The line of the table."""
        take = self.take if self.take == UNCLEAR else f"**{self.take}**"
        return self.need, take, self.evidence, self.loses


def join_words(words: Sequence[str], last: str = "and") -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def count_runs(runs: int) -> str:
    """1 run, 3 runs."""
    return "one run" if runs == 1 else f"{runs} runs"
