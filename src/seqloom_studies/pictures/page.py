"""The page of `seqloom study pictures`, OUT/pictures.html: bits per dimension by price, and what the models drew.

Drawn from the rows in OUT/results.jsonl alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean
from typing import Annotated, ClassVar, Self, final

from pydantic import Field

from seqloom.core import table as layout
from seqloom.report import html
from seqloom.report.charts.chart import Cell, Chart, round_number
from seqloom.report.charts.picture import paint, pixel_lines
from seqloom.report.columns import AtLeastOne, Count, Number
from seqloom.report.results import read
from seqloom.report.seeds import SeedRow, describe_seeds, model_of, rank_by_mean
from seqloom.runs.durable import replace_text

STUDY = "pictures"
Byte = Annotated[int, Field(ge=0, le=255)]
Side = Annotated[int, Field(ge=1, le=256)]


@final
class Painted(SeedRow):
    """The bits per dimension of one model."""

    parameters: Count
    multiplications: Count
    bits: Number
    pictures: AtLeastOne
    shape: Annotated[list[Side], Field(min_length=3, max_length=3)]
    """height, width and numbers of a pixel"""
    samples: list[list[Byte]] | None


Rows = Sequence[Painted]


@final
@dataclass(frozen=True)
class PicturesReport:
    """The content of the page."""

    answer: list[str]
    samples: list[tuple[str, str, int, int]]
    """the model, its pictures side by side as the address of an image, and its width and height"""
    charts: list[Chart]
    head: ClassVar = ("pictures", "seed", "bits per dimension", "multiplications", "parameters")
    table: list[tuple[str, list[Cell]]]
    """the mixer of each row, and its cells"""
    title: ClassVar = "Pictures, number by number"
    about: ClassVar = (
        "Models that predict each number of a picture from those before it; a lower number of bits is better."
    )
    origin: Painted

    @classmethod
    def from_rows(cls, rows: Rows) -> Self:
        """The report of these rows."""
        ranked = rank_models(rows)
        return cls(answer(ranked), samples_of(ranked), [], [(row.mixer, _cells(row)) for row in ranked], rows[-1])


def rank_models(rows: Rows) -> list[Painted]:
    """The rows, those of the lowest mean first, by the pictures."""
    return rank_by_mean(rows, lambda row: row.bits)


def answer(ranked: Rows) -> list[str]:
    """A sentence for each kind of pictures, and by how many seeds."""
    sentences = []
    for source, of_source in groupby(ranked, lambda row: row.source):
        bits = {name: fmean(row.bits for row in group) for name, group in groupby(of_source, lambda row: row.mixer)}
        sentences.append(f"{source}: " + ", ".join(f"{name} {mean:.4f}" for name, mean in bits.items()))
    return [f"Bits per dimension of {'; '.join(sentences)}.", describe_seeds(len({row.seed for row in ranked}))]


def samples_of(ranked: Rows) -> list[tuple[str, str, int, int]]:
    """The pictures that each model drew, side by side."""
    images = []
    for row in ranked:
        height, width, channels = row.shape
        drawn = [numbers for numbers in row.samples or [] if len(numbers) == height * width * channels]
        if not drawn or channels not in (1, 3):
            continue
        rows_of_lines = zip(*(pixel_lines(numbers, row.shape) for numbers in drawn), strict=True)
        lines = [list(chain.from_iterable(parts)) for parts in rows_of_lines]
        images.append((f"{row.mixer}, {row.source}", paint(lines), width * len(drawn), height))
    return images


def text(rows: Rows) -> str:
    """The bits per dimension of each mixer, as they are printed."""
    lines = []
    for (source, name), group in groupby(rank_models(rows), model_of):
        same = list(group)
        bits = [row.bits for row in same]
        lines.append(
            (
                source,
                name,
                f"{fmean(bits):.4f}",
                f"{min(bits):.4f}",
                f"{max(bits):.4f}",
                len(same),
                same[0].multiplications,
            )
        )
    head = ("pictures", "mixer", "bits per dimension", "lowest seed", "highest seed", "seeds", "multiplications")
    return layout.table(head, lines)


def read_rows(out: Path) -> list[Painted]:
    """The rows of the study in `out`. Raises as `results.read` does."""
    return read(out, STUDY, Painted)


def write(out: Path) -> Path:
    """Writes the page of the study in `out`; returns its path. Raises as `results.read` does."""
    report = PicturesReport.from_rows(read_rows(out))
    path = out / "pictures.html"
    replace_text(path, html.render(Path(__file__).with_name("page.jinja"), report, report.charts))
    return path


def _cells(row: Painted) -> list[Cell]:
    return [row.source, row.seed, round_number(row.bits), row.multiplications, row.parameters]
