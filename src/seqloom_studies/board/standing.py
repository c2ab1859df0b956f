"""The comparison's standings: the best learning rate of each model, its result runs, paired differences, the decisions.

rate        that of the lowest validation loss of seed 0; chosen where its two neighbors were tried too, or it is
            the last that may be tried
result      bits per byte on the test texts of the result runs at that rate, run by run: a run per fold of authors;
            in rows of the protocol before folds, a run per seed on one test text, seed 0 among them
decision    the verdict (`core.verdict`) on the differences of two models, run by run
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import final

from seqloom.core.statistics import Estimate, contrast, mean_of
from seqloom.core.verdict import Verdict, interval, verdicts
from seqloom_studies.board.page_rows import Result, Spans

RESULTS = ("result", "first")
"""the uses of runs whose test score is a result; "first": of the protocol before folds"""


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
    share: float = 0.0
    """tested texts per training text where each run is tested on a fold of its own; 0 on one test text"""
    margin: float = 0.01
    """bits per byte: smaller differences do not matter"""
    runs: int = 0
    """the runs of both models of every question, before which no verdict is given; 0: with any number"""
    ends: Sequence[float] = ()
    """the lowest and the highest rate that may be tried"""


@final
@dataclass(frozen=True)
class Standing:
    """A contender at its best rate."""

    name: str
    title: str
    rate: float
    chosen: bool
    """whether the rates on both sides of it were tried, or none may be tried beyond it"""
    rows: Mapping[int, Result]
    """of its result runs, by seed"""
    runs: Mapping[int, float]
    """their bits per byte, by seed"""
    estimate: Estimate
    """of its bits per byte"""

    @property
    def first(self) -> Result:
        """The row of the lowest seed: sizes and state are those of all."""
        return self.rows[min(self.rows)]

    def mean(self, spans: Callable[[Result], Spans | None], span: str) -> float | None:
        """The mean over the seeds of one span of positions; None where a run does not have it."""
        values = [(spans(row) or {}).get(span) for row in self.rows.values()]
        present = [value for value in values if value is not None]
        return sum(present) / len(present) if present and len(present) == len(values) else None


@final
@dataclass(frozen=True)
class Answer:
    """The answer to a question, from the rows."""

    question: Question
    verdict: Verdict | None
    """on first minus second, with Holm's correction over all questions; None where no run is common"""
    awaited: int = 0
    """the runs without which nothing is decided, where some question has fewer; 0 where all are there"""

    def sentence(self, titles: Mapping[str, str]) -> str:
        """The decision with its evidence."""
        first, second = titles[self.question.first], titles[self.question.second]
        if self.verdict is None:
            return f"Not trained yet: {first} and {second}."
        estimate = self.verdict.difference.estimate
        runs = f"{estimate.seeds} run{'s' * (estimate.seeds > 1)}"
        difference = f"{first} minus {second}: {interval(estimate)} bits per byte"
        if self.awaited:
            return f"{difference}: not decided before all questions have {self.awaited} runs ({estimate.seeds} here)."
        sentence = f"{difference} ({runs}): {self.verdict.words}"
        if self.verdict.is_significant:
            return f"{sentence}: **{first if estimate.mean < 0 else second}**."
        return f"{sentence}."


@final
@dataclass(frozen=True)
class Board:
    """The rows of one board."""

    lineup: Lineup
    rows: Sequence[Result]
    """of the board that has most of them"""

    @classmethod
    def of(cls, rows: Sequence[Result], lineup: Lineup) -> "Board":
        """The board with the most rows in a file that may hold several. ValueError where there is no row."""
        if not rows:
            raise ValueError("there are no rows of the comparison yet: seqloom study board makes them")
        digest, _ = Counter(row.board for row in rows).most_common(1)[0]
        return cls(lineup, [row for row in rows if row.board == digest])

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
        pairs = {
            str(number): (question.first, question.second) for number, question in enumerate(self.lineup.questions)
        }
        found = verdicts(runs, pairs, margin=self.lineup.margin, share=self.lineup.share)
        fewest = min((found[name].difference.estimate.seeds if name in found else 0 for name in pairs), default=0)
        awaited = self.lineup.runs if fewest < self.lineup.runs else 0
        questions = enumerate(self.lineup.questions)
        return [Answer(question, found.get(str(number)), awaited) for number, question in questions]

    def to_host(self, name: str) -> Estimate | None:
        """The difference of a contender to the baseline, paired by seed, with an interval of its own: exploratory."""
        if name == self.lineup.host:
            return None
        runs = {other: standing.runs for other, standing in self.standings.items() if other in (name, self.lineup.host)}
        weights = {name: 1, self.lineup.host: -1}
        return contrast(weights, runs, paired=True, share=self.lineup.share) if len(runs) == 2 else None

    @property
    def unfinished_contenders(self) -> list[str]:
        """The contenders whose rate is not chosen yet, or that have no row at all."""
        standings = self.standings
        return [
            title
            for name, title in self.lineup.titles.items()
            if name not in standings or not (standings[name].chosen or name in self.lineup.below)
        ]

    def _standing(self, name: str) -> Standing | None:
        """The standing of a contender at its best rate; None without a run that ended with a loss."""
        own = [row for row in self.rows if row.contender == name]
        losses = {row.lr: _validation(row) for row in own if _chooses(row)}
        if not losses:
            return None
        rate = min(losses, key=lambda rate: (losses[rate], rate))
        at_rate = [row for row in own if row.lr == rate and row.use in RESULTS and row.failed is None]
        rows = {row.seed: row for row in sorted(at_rate, key=lambda row: row.seed) if row.bits_per_byte is not None}
        runs = {seed: row.bits_per_byte for seed, row in rows.items() if row.bits_per_byte is not None}
        if not runs:
            return None
        chosen = {rate / 2, rate * 2} <= losses.keys() or rate in self.lineup.ends
        estimate = mean_of(list(runs.values()), share=self.lineup.share)
        return Standing(name, self.lineup.titles[name], rate, chosen, rows, runs, estimate)


def _chooses(row: Result) -> bool:
    """Whether the rate is chosen by this row."""
    return row.use == "rate" or (row.use == "first" and row.seed == 0)


def _validation(row: Result) -> float:
    """The loss that the rate is chosen by, infinite where it became NaN."""
    return inf if row.validation is None else row.validation
