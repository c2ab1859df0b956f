"""The page of `seqloom study patches`, OUT/patches.html: right labels of each model, against chance.

Drawn from the rows in OUT/results.jsonl alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import ClassVar, Self, final

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import Cell, Chart, round_number
from seqloom.report.columns import AtLeastOne, Count, Number, Share
from seqloom.report.results import read
from seqloom.report.seeds import SeedRow, describe_seeds, model_of, rank_by_mean
from seqloom.runs.durable import replace_text

STUDY = "patches"


@final
class Classified(SeedRow):
    """The right labels of one model."""

    patches: AtLeastOne
    parameters: Count
    multiplications: Count
    held_out: Number
    accuracy: Share
    chance: Share
    pictures: AtLeastOne


Rows = Sequence[Classified]


@final
@dataclass(frozen=True)
class PatchesReport:
    """The content of the page."""

    answer: list[str]
    charts: list[Chart]
    head: ClassVar = ("pictures", "seed", "right", "chance", "loss", "patches", "multiplications", "parameters")
    table: list[tuple[str, list[Cell]]]
    """the mixer of each row, and its cells"""
    title: ClassVar = "Pictures, patch by patch"
    about: ClassVar = (
        "Models that say what is on a picture, by its patches. Right: the share of held-out pictures; chance: that of "
        "always saying the commonest label."
    )
    origin: Classified

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        ranked = rank_models(rows)
        return cls(answer(ranked), [], [(row.mixer, _cells(row)) for row in ranked], rows[-1])


def rank_models(rows: Rows) -> list[Classified]:
    """The rows, those of the highest mean first, by the pictures."""
    return rank_by_mean(rows, lambda row: -row.accuracy)


def answer(ranked: Rows) -> list[str]:
    """A sentence for each kind of pictures, and by how many seeds."""
    sentences = []
    for source, of_source in groupby(ranked, lambda row: row.source):
        same = list(of_source)
        shares = {name: fmean(row.accuracy for row in group) for name, group in groupby(same, lambda row: row.mixer)}
        models = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
        sentences.append(f"{source}: {models}; by chance {same[0].chance:.1%}")
    return [f"Right labels of {'; '.join(sentences)}.", describe_seeds(len({row.seed for row in ranked}))]


def text(rows: Rows) -> str:
    """The right labels of each mixer, as they are printed."""
    lines = []
    for (source, name), group in groupby(rank_models(rows), model_of):
        same = list(group)
        shares = [row.accuracy for row in same]
        cells = (f"{share:.1%}" for share in (fmean(shares), min(shares), max(shares), same[0].chance))
        lines.append((source, name, *cells, len(same), same[0].multiplications, same[0].parameters))
    head = ("pictures", "mixer", "right", "lowest seed", "highest seed", "chance", "seeds", "multiplications")
    return layout.table((*head, "parameters"), lines)


def read_rows(out: Path) -> list[Classified]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Classified)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = PatchesReport.from_rows(read_rows(out))
    path = out / "patches.html"
    replace_text(path, html.render("rows.html.jinja", report, report.charts))
    return path


def _cells(row: Classified) -> list[Cell]:
    numbers = map(round_number, (row.accuracy, row.chance, row.held_out))
    return [row.source, row.seed, *numbers, row.patches, row.multiplications, row.parameters]
