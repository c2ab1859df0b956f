"""A figure of the paper or a control: the models that it trains, and the kind of its chart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

from seqloom.core.config import suggestion
from seqloom.studies.candidates import parse_candidate
from seqloom_studies.paper.grid import Cell, Grid, Model

Kind: TypeAlias = Literal["curves", "batches", "sweep", "points"]
"""the chart: medians over batches; every batch; losses at the end over a setting; held-out loss over size and time"""


@final
@dataclass(frozen=True)
class Line:
    """One model in a figure: its curve, its contender, and its position on the x axis."""

    model: Model
    series: str
    of: str
    """the contender that it belongs to, by which `--only` selects it"""
    x: float | None = None
    family: str = ""
    """the panel that it is drawn in, of a figure with several"""


@final
@dataclass(frozen=True)
class Study:
    """A figure. Each curve has `stretch` medians: with 30, a median is over 2,000 of 60,000 batches as in the paper."""

    name: str
    heading: str
    says: str
    kind: Kind
    lines: tuple[Line, ...]
    stretch: int = 30
    over: str = ""
    """the setting on the x axis of a sweep"""
    notes: tuple[tuple[str, str], ...] = ()
    """(contender, remark) pairs"""
    most_seeds: int | None = None
    """largest number of seeds that the figure can show"""

    def batches(self, batches: int) -> int:
        """The number of batches of a stretch, in a training of `batches` batches."""
        return max(1, batches // self.stretch)

    def cells(self, seeds: int) -> list[Cell]:
        """Its runs without repetition, seed by seed, so that all models have one run before one has two."""
        count = min(seeds, self.most_seeds or seeds)
        return list(dict.fromkeys(Cell(line.model, seed) for seed in range(count) for line in self.lines))

    def only(self, mixers: Sequence[str]) -> "Study":
        """The figure with these contenders only. ValueError for a contender that it does not have."""
        if not mixers:
            return self
        contenders = list(dict.fromkeys(line.of for line in self.lines))
        chosen = [parse_candidate(text).name for text in mixers]
        for name in chosen:
            if name not in contenders:
                raise ValueError(f"--only {name}: {self.name} has no such model; {suggestion(name, contenders)}")
        lines = tuple(line for line in self.lines if line.of in chosen)
        says = f"{self.says} Only {', '.join(chosen)} here." if len(chosen) < len(contenders) else self.says
        return replace(self, says=says, lines=lines, notes=tuple(note for note in self.notes if note[0] in chosen))


def line(grid: Grid, text: str, *changes: str, series: str = "", x: float | None = None, family: str = "") -> Line:
    """The line of a contender with further settings; `series` is its name, by default that of the contender."""
    name = parse_candidate(text).name
    return Line(grid.model(text, *changes), series or name, name, x, family)
