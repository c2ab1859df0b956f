"""A chart of a page: its words, its rows, and one or several specifications over these rows."""

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

Cell: TypeAlias = float | int | str | None
Spec: TypeAlias = dict[str, Any]
DIGITS = 5
"""digits of a number in charts and in their tables"""
SEEDS = ("lowest seed", "highest seed")
"""columns of the ends of a band, or of a bar"""


@final
@dataclass(frozen=True)
class Table:
    """Rows under a head. A chart is drawn from its table, so that the two cannot differ."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def csv(self) -> str:
        """The table as CSV; an unknown number is empty."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.head, *self.rows])
        return out.getvalue()

    def column(self, name: str) -> list[Cell]:
        """All cells of the column of that name, in order."""
        index = self.head.index(name)
        return [row[index] for row in self.rows]

    def numbers(self, name: str) -> list[float]:
        """The numbers of a column; unknown ones are left out."""
        return [value for value in self.column(name) if isinstance(value, int | float)]


@final
@dataclass(frozen=True)
class Axis:
    """A column of the rows, and the label of its axis."""

    column: str
    label: str
    log: bool = False
    marked: Sequence[float] = ()
    """the only labeled ticks, where there are any"""


@final
@dataclass(frozen=True)
class Choice:
    """One way to draw the rows of a chart: `draw` needs Altair, and calls the data by their names."""

    label: str
    draw: Callable[[], Spec]


@final
@dataclass(frozen=True)
class Chart:
    """A chart with a heading. `tables` are its data by name; the one called `rows` is shown next to the chart."""

    name: str
    heading: str
    description: str
    tables: Mapping[str, Table]
    choices: Sequence[Choice]
    choose: str = ""
    """the label of the list of choices, where there are several"""

    @property
    def table(self) -> Table:
        """The numbers that are shown next to the chart."""
        return self.tables["rows"]

    def specification(self, choice: int = 0) -> Spec:
        """One of its specifications with its data inside, as CSV text."""
        data = {name: table.csv for name, table in self.tables.items()}
        specification = self.choices[choice].draw()
        return specification | {"datasets": specification.get("datasets", {}) | data}


def round_number(value: float | None) -> float | int | None:
    """A number to five digits, as an int where it is whole; None for what is unknown or not finite."""
    if value is None or not math.isfinite(value):
        return None
    if isinstance(value, int):
        return value
    number = float(f"{value:.{DIGITS}g}")
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def all_rounded(values: Sequence[float | None]) -> list[float | int | None]:
    """Each number of a sequence to five digits."""
    return [round_number(value) for value in values]


def filename(*parts: object) -> str:
    """A name that every file system takes: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(str(part) for part in parts).lower()).strip("-") or "chart"
