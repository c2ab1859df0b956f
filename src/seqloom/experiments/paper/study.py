"""A figure of the paper, or a control for it: the models that it trains, and the kind of its chart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

from seqloom.core.config import near
from seqloom.experiments.contenders import contender
from seqloom.experiments.paper.grid import Cell, Grid, Model

Kind: TypeAlias = Literal["curves", "batches", "sweep", "points"]
"""medians over batches; each batch; the end of training over a setting; held-out loss against size and time"""


@final
@dataclass(frozen=True)
class Line:
    """One model in a figure: its curve, its contender, and its position on the x axis."""

    model: Model
    series: str
    of: str
    """the contender that it belongs to, as `--only` names it"""
    x: float | None = None
    family: str = ""
    """which panel it is drawn in, where a figure has several"""


@final
@dataclass(frozen=True)
class Study:
    """A figure. A median is taken over batches / `stretch`: 30 makes the paper's 2,000 of 60,000."""

    name: str
    heading: str
    says: str
    kind: Kind
    lines: tuple[Line, ...]
    stretch: int = 30
    over: str = ""
    """what x is, in a sweep"""
    notes: tuple[tuple[str, str], ...] = ()
    """(contender, remark) pairs"""
    most_seeds: int | None = None
    """largest number of seeds that the figure can show"""

    def batches(self, batches: int) -> int:
        """The batches of a stretch in a training of `batches`."""
        return max(1, batches // self.stretch)

    def cells(self, seeds: int) -> list[Cell]:
        """Its cells without repetition, seed by seed: every model has one run before any has two."""
        count = min(seeds, self.most_seeds or seeds)
        return list(dict.fromkeys(Cell(line.model, seed) for seed in range(count) for line in self.lines))

    def only(self, mixers: Sequence[str]) -> "Study":
        """The same figure of these contenders alone. ValueError for one that it does not have."""
        if not mixers:
            return self
        known = list(dict.fromkeys(line.of for line in self.lines))
        chosen = [contender(text).name for text in mixers]
        for name in chosen:
            if name not in known:
                raise ValueError(f"--only {name}: {self.name} has no such model; {near(name, known)}")
        lines = tuple(line for line in self.lines if line.of in chosen)
        says = f"{self.says} Only {', '.join(chosen)} here." if len(chosen) < len(known) else self.says
        return replace(self, says=says, lines=lines, notes=tuple(note for note in self.notes if note[0] in chosen))


def line(grid: Grid, text: str, *changes: str, series: str = "", x: float | None = None, family: str = "") -> Line:
    """The line of a contender with further settings, called by the contender where no `series` is given."""
    of = contender(text).name
    return Line(grid.model(text, *changes), series or of, of, x, family)
