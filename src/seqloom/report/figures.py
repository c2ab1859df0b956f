"""The charts of a comparison as files for a paper: PDF, SVG and PNG of a given width, with text of a given size.

    write_figures(rows, Path("figures"), Figures(formats=("pdf", "svg"), width=3.3, font=8))

A chart is drawn so that its text has the wanted size once the whole is as wide as asked, names beside the curves
included. Each choice of a chart is a file: training.pdf, training-tokens.pdf, price-of-state-bytes.pdf.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.report.charts import draw
from seqloom.report.charts.chart import Chart, filename
from seqloom.report.charts.style import PAPER, SIZE, config
from seqloom.report.comparison import Comparison
from seqloom.report.page import Report
from seqloom.runs.durable import replace

FORMATS = ("pdf", "svg", "png")
POINTS = 72
"""points of an inch"""
UNITS = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / POINTS}
DOTS = 300
"""dots of an inch of a PNG"""
NARROWEST, WIDEST = 1.0, 20.0
"""inches"""


@final
@dataclass(frozen=True)
class Figures:
    """How figures are written. ValueError for values that do not fit."""

    formats: tuple[str, ...] = ("pdf",)
    width: float = 3.3
    """inches"""
    font: float = 8.0
    """points"""

    def __post_init__(self) -> None:
        unknown = [form for form in self.formats if form not in FORMATS]
        if unknown or not self.formats:
            raise ValueError(f"--format is a list of {', '.join(FORMATS)}, not {', '.join(unknown) or 'empty'}")
        if not NARROWEST <= self.width <= WIDEST:
            raise ValueError(f"--width is from {NARROWEST:g}in to {WIDEST:g}in, not {self.width:g}in")
        if not 3 <= self.font <= 40:
            raise ValueError(f"--font is from 3 to 40 points, not {self.font:g}")


def parse_width(text: str) -> float:
    """The inches of a width such as 3.3in, 84mm, 8.4cm or 240pt. ValueError for another text."""
    found = re.fullmatch(r"(\d{1,4}(?:\.\d{1,4})?)(in|cm|mm|pt)", text.strip())
    if found is None:
        raise ValueError(f"--width is a number with a unit, such as 3.3in, 84mm, 8.4cm or 240pt, not {text[:40]!r}")
    return float(found[1]) * UNITS[found[2]]


def write_figures(rows: Comparison, folder: Path, figures: Figures) -> list[Path]:
    """Writes every choice of every chart in every format into the folder; returns the paths.

    ValueError, which names the extra, where the packages that draw are missing.
    """
    if not draw.has_charts():
        raise ValueError("figures need the extra report: pip install 'seqloom[report]'")
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in Report.from_rows(rows).charts:
        for number, choice in enumerate(chart.choices):
            svg = scaled_svg(chart, number, figures)
            name = chart.name if number == 0 else f"{chart.name}-{filename(choice.label)}"
            paths += [_write(folder / f"{filename(name)}.{form}", svg, figures.width, form) for form in figures.formats]
    return paths


def scaled_svg(chart: Chart, choice: int, figures: Figures) -> str:
    """A chart as SVG, as wide as asked, without a title: that of a figure is its caption."""
    wanted = figures.width * POINTS * SIZE / figures.font
    plot = wanted
    for _ in range(3):  # what is beside the plot is as wide whatever the plot is, but for the numbers of its axis
        svg = _draw(chart, choice, max(40.0, plot))
        width, _ = _size(svg)
        if abs(width - wanted) < 0.5:
            break
        plot += wanted - width
    return _resize(svg, figures.width * POINTS, "pt")


def _draw(chart: Chart, choice: int, plot: float) -> str:
    import vl_convert

    drawn = {"width": round(plot), "config": config(PAPER), "padding": 2}
    svg: str = vl_convert.vegalite_to_svg(chart.specification(choice) | drawn)
    return svg


def _resize(svg: str, width: float, unit: str) -> str:
    """The SVG of another width, and of the height that fits it."""
    own_width, own_height = _size(svg)
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)
    return f'{opening} width="{width:.5g}{unit}" height="{own_height * width / own_width:.5g}{unit}">{rest}'


def _size(svg: str) -> tuple[float, float]:
    """The width and the height of an SVG in its own units."""
    found = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', svg)
    assert found is not None
    return float(found[1]), float(found[2])


def _write(path: Path, svg: str, width: float, form: str) -> Path:
    """Writes a drawing of so many inches; vl-convert takes a pixel for a point."""
    import vl_convert

    in_pixels = _resize(svg, width * POINTS, "")
    match form:
        case "svg":
            data = svg.encode()
        case "pdf":
            data = vl_convert.svg_to_pdf(in_pixels)
        case _:
            data = vl_convert.svg_to_png(in_pixels, ppi=DOTS)
    replace(path, data)
    return path


def require_formats(text: str) -> tuple[str, ...]:
    """The formats of a list such as pdf,svg."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
