"""The board's standings: the best learning rate of each contender, its seeds, paired differences, the decisions.

    rate        that of the lowest validation loss of seed 0; chosen where its two neighbors were tried too
    result      bits per byte on the test books of all seeds at that rate
    decision    Student of the differences of two rows seed by seed, Holm over the decisions

The seed that chose the rate is among those of the result: that is sound, because the rate is chosen on other books.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, final

from seqloom.core.statistics import FEWEST, LEVEL, Difference, Estimate, contrast, differences, mean_of

Row = Mapping[str, Any]


@final
@dataclass(frozen=True)
class Question:
    """The question of a decision: whose bits per byte are lower."""

    text: str
    first: str
    second: str


@final
@dataclass(frozen=True)
class Lineup:
    """What was fixed before the runs: the titles of the rows, the baseline, the questions."""

    titles: Mapping[str, str]
    """of all contenders, in their order"""
    host: str
    below: Sequence[str]
    """contenders at their own size"""
    questions: Sequence[Question]


@final
@dataclass(frozen=True)
class Standing:
    """A contender at its best rate."""

    name: str
    title: str
    rate: float
    chosen: bool
    """whether the rates on both sides of it were tried"""
    rows: Mapping[int, Row]
    """by seed"""
    estimate: Estimate
    """of its bits per byte"""

    @property
    def first(self) -> Row:
        """The row of the lowest seed: sizes and state are those of all."""
        return self.rows[min(self.rows)]

    @property
    def runs(self) -> dict[int, float]:
        """Bits per byte by seed."""
        return {seed: row["bits_per_byte"] for seed, row in self.rows.items()}

    def mean(self, column: str, part: str) -> float | None:
        """The mean over the seeds of one span of positions; None where a run does not have it."""
        values = [(row[column] or {}).get(part) for row in self.rows.values()]
        present = [value for value in values if value is not None]
        return sum(present) / len(present) if present and len(present) == len(values) else None


@final
@dataclass(frozen=True)
class Answer:
    """The answer to a question, from the rows."""

    question: Question
    difference: Difference | None
    """first minus second, with Holm's correction over all questions; None where no seed is common"""

    def sentence(self, titles: Mapping[str, str]) -> str:
        """The decision with its evidence."""
        first, second = titles[self.question.first], titles[self.question.second]
        if self.difference is None:
            return f"Not trained yet: {first} and {second}."
        estimate = self.difference.estimate
        size = f"{abs(estimate.mean):.4f} bits per byte"
        word = "lower" if estimate.mean < 0 else "higher"
        if estimate.half is None:
            return f"{first} is {size} {word} than {second}: observed once, which decides nothing."
        sentence = f"{first} is {size} {word} than {second} (± {estimate.half:.4f}, {estimate.seeds} seeds"
        if self.difference.adjusted is None:
            return f"{sentence}): fewer than {FEWEST} seeds decide nothing."
        sentence += f", p {self.difference.adjusted:.2g} after Holm)"
        if self.difference.adjusted >= LEVEL:
            smallest = self.difference.smallest
            return f"{sentence}: not settled" + (f"; {smallest:.4f} would have been." if smallest is not None else ".")
        return f"{sentence}: **{first if estimate.mean < 0 else second}**."


@final
@dataclass(frozen=True)
class Board:
    """The rows of one board."""

    lineup: Lineup
    rows: Sequence[Row]
    """of the board that has most of them"""

    @classmethod
    def of(cls, rows: Sequence[Row], lineup: Lineup) -> "Board":
        """The board with the most rows in a file that may hold several. ValueError where there is no row."""
        if not rows:
            raise ValueError("there are no rows of the board yet: seqloom study board makes them")
        digest, _ = Counter(row["board"] for row in rows).most_common(1)[0]
        return cls(lineup, [row for row in rows if row["board"] == digest])

    @property
    def standings(self) -> dict[str, Standing]:
        """Every contender with a result, the lowest mean first, those at their own size last."""
        standings = {name: standing for name in self.lineup.titles if (standing := self._standing(name)) is not None}
        below = self.lineup.below
        return dict(sorted(standings.items(), key=lambda pair: (pair[0] in below, pair[1].estimate.mean)))

    @property
    def answers(self) -> list[Answer]:
        """The answers to all questions; the correction covers those that can be tested."""
        runs = {name: standing.runs for name, standing in self.standings.items()}
        questions = {str(number): question for number, question in enumerate(self.lineup.questions)}
        paired = {
            number: differences_by_seed
            for number, question in questions.items()
            if (differences_by_seed := _paired(runs.get(question.first, {}), runs.get(question.second, {})))
        }
        # `differences` compares rows with a baseline; paired differences are compared with a baseline of zeros
        zeros = {f"{number} baseline": dict.fromkeys(by_seed, 0.0) for number, by_seed in paired.items()}
        tested = differences({**paired, **zeros}, {number: f"{number} baseline" for number in paired}, paired=True)
        return [Answer(question, tested.get(number)) for number, question in questions.items()]

    def to_host(self, name: str) -> Estimate | None:
        """The difference of a contender to the baseline, paired by seed, with an interval of its own: exploratory."""
        if name == self.lineup.host:
            return None
        runs = {other: standing.runs for other, standing in self.standings.items() if other in (name, self.lineup.host)}
        return contrast({name: 1, self.lineup.host: -1}, runs, paired=True) if len(runs) == 2 else None

    @property
    def unfinished(self) -> list[str]:
        """The contenders whose rate is not chosen yet, or that have no row at all."""
        standings = self.standings
        return [
            title
            for name, title in self.lineup.titles.items()
            if name not in standings or not (standings[name].chosen or name in self.lineup.below)
        ]

    def _standing(self, name: str) -> Standing | None:
        """The standing of a contender at its best rate; None without a run that ended with a loss."""
        by_rate = {row["lr"]: row for row in self.rows if row["contender"] == name and row["seed"] == 0}
        if not by_rate:
            return None
        losses = {rate: inf if row["validation"] is None else row["validation"] for rate, row in by_rate.items()}
        rate = min(losses, key=lambda rate: (losses[rate], rate))
        at_rate = [row for row in self.rows if row["contender"] == name and row["lr"] == rate]
        rows = {row["seed"]: row for row in sorted(at_rate, key=lambda row: row["seed"]) if row["failed"] is None}
        if not rows:
            return None
        chosen = {rate / 2, rate * 2} <= losses.keys()
        values = [row["bits_per_byte"] for row in rows.values()]
        return Standing(name, self.lineup.titles[name], rate, chosen, rows, mean_of(values))


def _paired(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """The difference by seed, of the seeds that both have."""
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}
