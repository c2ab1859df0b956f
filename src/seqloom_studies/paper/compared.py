"""The statistics of a study: each line's loss with its interval, and its difference to the baseline's.

The baseline is 32-head attention where the figure has it, else the figure's first series; in a figure that varies
something, each line is compared with the baseline's line at the same value. All lines are one family of hypotheses.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Literal, TypeAlias, final, get_args

from seqloom.core.statistics import Difference, Estimate, Word, differences, mean_of, smallest_significant
from seqloom_studies.paper.page_rows import Line, Study

PEER = "attention-heads=32"
"""the attention that the paper compares with"""
LABELS: Mapping[Word, str] = {
    "lower": "Significantly lower",
    "higher": "Significantly higher",
    "no clear difference": "No clear difference",
    "one run": "One run",
}
"""what stands before the lines with each word"""
Loss: TypeAlias = Literal["training", "held_out"]
Key: TypeAlias = tuple[str, float | None]
"""a line of a figure: its series, and the value of what the figure varies"""


def key(line: Line) -> Key:
    """The key of a line."""
    return line.series, line.x


def name_line(study: Study, line: Key) -> str:
    """A line as sentences call it: 32 heads, or SHE at context 8."""
    series, x = line
    over = study.figure.over
    return call_series(series) + (f" at {over} {x:g}" if over and x is not None else "")


def call_series(series: str) -> str:
    """A series, or a sentence that names some, with the paper's names."""
    series = re.sub(r"attention-heads=(\d+)", lambda match: f"{match[1]} head{'s' * (match[1] != '1')}", series)
    return re.sub(r"\b(she|he|we|me)\b", lambda match: match[0].upper(), series)


def losses(study: Study, loss: Loss) -> dict[Key, dict[int, float]]:
    """The losses of the finished cells, by line and seed; of a line that has none yet, {}."""
    return {
        key(line): {
            seed.row.seed: value
            for seed in line.seeds
            if seed.row.finished and (value := seed.row.value(loss)) is not None
        }
        for line in study.lines
    }


@final
class Compared:
    """One loss of all lines of a figure."""

    def __init__(self, study: Study, loss: Loss) -> None:
        self.study, self.loss = study, loss
        self.losses = losses(study, loss)
        series = [line.series for line in study.lines]
        self.baseline = PEER if PEER in series else series[0]

    @cached_property
    def differences(self) -> dict[Key, Difference]:
        """The difference of each line to its baseline, where both have a finished run."""
        over = bool(self.study.figure.over)
        first = next(key(line) for line in self.study.lines if line.series == self.baseline)
        baselines = {(series, x): (self.baseline, x) if over else first for series, x in self.losses}
        return differences(self.losses, baselines, paired=self.study.figure.paired)

    def mean(self, line: Line) -> Estimate | None:
        """The mean of a line's own runs; None where none is finished."""
        losses = self.losses[key(line)]
        return mean_of(list(losses.values())) if losses else None

    def difference(self, line: Line) -> Difference | None:
        """The difference of a line to the baseline; None for the baseline itself."""
        return self.differences.get(key(line))

    @property
    def conclusion(self) -> str:
        """Which lines are significantly below or above the baseline; "" with nothing to compare."""
        groups: dict[Word, list[str]] = {word: [] for word in get_args(Word)}
        for line, difference in self.differences.items():
            groups[difference.word].append(name_line(self.study, line))
        if not self.differences:
            return ""
        lower = f"lower {'training' if self.loss == 'training' else 'held-out'} loss than {call_series(self.baseline)}"
        if len(groups["one run"]) == len(self.differences):
            return f"One run of each model: no {lower} can be called significant."
        names = {word: ", ".join(lines) for word, lines in groups.items() if lines}
        opening = (
            f"A significantly {lower}: {names.pop('lower')}." if "lower" in names else f"No significantly {lower}."
        )
        return " ".join([opening, *(f"{LABELS[word]}: {lines}." for word, lines in names.items())])

    @property
    def smallest_difference(self) -> str:
        """The sentence under the table: the smallest significant difference; "" with one line."""
        over = self.study.figure.over
        smallest = {
            f"{series} at {over} {x:g}" if over and x is not None else series: difference.smallest
            for (series, x), difference in self.differences.items()
        }
        return smallest_significant(smallest, self.baseline, self.study.figure.seeds) if smallest else ""
