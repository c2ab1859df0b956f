"""A figure of the page: its words, and its panels, each with a picture, its numbers and what the script draws."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from seqloom.report.comparison import Contender

Cell = float | int | str | None
COST = "held-out cost (nats a token)"
DIGITS = 5
"""digits of a number in figures and in their tables"""


@final
@dataclass(frozen=True)
class Panel:
    """One picture. `name` is that of its files, `label` that of its choice; `plot` is drawn by page.js."""

    name: str
    label: str
    svg: str
    head: list[str]
    rows: list[list[Cell]]
    plot: dict[str, Any]

    @property
    def csv(self) -> str:
        """The numbers as CSV; an unknown one is empty."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.head, *self.rows])
        return out.getvalue()

    @property
    def large(self) -> bool:
        """Whether its table is so large that the script writes it, when it is asked for."""
        return "z" in self.plot and len(self.head) * len(self.rows) > 400


@final
@dataclass(frozen=True)
class Exhibit:
    """A figure under its heading; `control` labels the choice between panels, `names` (name, slot) can be toggled."""

    name: str
    heading: str
    says: str
    panels: list[Panel]
    control: str = ""
    names: list[tuple[str, int]] = field(default_factory=list)
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def one_table(self) -> bool:
        """Whether all panels have the same numbers, which are then listed once."""
        return len(self.panels) > 1 and all(panel.rows == self.panels[0].rows for panel in self.panels)


def rounded(value: float | None) -> float | int | None:
    """A number to five digits, as an int where it is whole; None for what is unknown or not finite."""
    if value is None or not math.isfinite(value):
        return None
    if isinstance(value, int):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def all_rounded(values: Sequence[float | None]) -> list[float | int | None]:
    """Each number of a sequence to five digits."""
    return [rounded(value) for value in values]


def names(contenders: Sequence[Contender]) -> list[tuple[str, int]]:
    """(name, slot) of contenders, for the toggles."""
    return [(each.name, each.slot) for each in contenders]


def filename(*parts: object) -> str:
    """A name that every file system takes: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(str(part) for part in parts).lower()).strip("-") or "figure"


def axis(label: str, log: bool = False) -> dict[str, Any]:
    """An axis as page.js reads it."""
    return {"label": label, "log": log}
