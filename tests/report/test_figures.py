"""The charts of a comparison as files for a paper: of the wanted width, with all their marks."""

import re
from pathlib import Path

import pytest

from seqloom.report.charts.chart import Chart, Table
from seqloom.report.figures import Figures, parse_width, require_formats, scaled_svg, write_figures
from seqloom.report.page import Report
from seqloom.report.read import read
from tests.report import making

pytest.importorskip("vl_convert", reason="vl-convert is not installed")


def charts(folder: Path, **options: int) -> list[Chart]:
    return Report.from_rows(read(making.comparison(folder, **options))).charts


def models_of(table: Table) -> set[str]:
    return {str(name) for name in table.column("model")}


@pytest.mark.slow
def test_every_choice_of_every_chart_is_drawn_with_all_its_marks(tmp_path: Path) -> None:
    """By vl-convert: a line or a mark for each model, and a band or a bar for each where there are several seeds."""
    for chart in charts(tmp_path):
        for choice in range(len(chart.choices)):
            svg = scaled_svg(chart, choice, Figures(width=7))
            models = models_of(chart.table)
            assert "NaN" not in svg, chart.name
            if chart.name.startswith("price"):
                points = [row for row in chart.table.rows if None not in row[:3]]
                marks = re.findall(r'<path aria-label="[^"]*model: [^"]*"[^>]*aria-roledescription="point"', svg)
                bars = re.findall(r'aria-roledescription="rule mark"', svg)
                assert (len(marks), len(bars)) == (len(points), len(points)), (chart.name, choice)
            else:
                strokes = re.findall(r'aria-roledescription="line mark"', svg)
                assert len(strokes) >= len(models), (chart.name, choice)


@pytest.mark.slow
def test_a_figure_has_the_width_and_the_size_of_text(tmp_path: Path) -> None:
    drawn = charts(tmp_path)
    for chart in (drawn[0], drawn[-1]):
        for width, font in ((3.3, 8.0), (6.0, 10.0)):
            svg = scaled_svg(chart, 0, Figures(width=width, font=font))
            found = re.search(r'viewBox="0 0 ([\d.]+) [\d.]+" width="([\d.]+)pt"', svg)
            assert found is not None
            units, points = map(float, found.groups())
            assert points == pytest.approx(72 * width, rel=1e-3)
            assert 13 * points / units == pytest.approx(font, rel=0.02), "13 units are the text of an axis"


@pytest.mark.slow
@pytest.mark.usefixtures("drawn_charts")
def test_the_files(tmp_path: Path) -> None:
    rows = read(making.comparison(tmp_path, seeds=1, steps=30)).with_names({"attention-heads=8": "Attention"})
    paths = write_figures(rows, tmp_path / "figures", Figures(("pdf", "svg", "png")))
    assert len({path.name for path in paths}) == len(paths)
    beginnings = {".pdf": b"%PDF", ".svg": b"<svg", ".png": b"\x89PNG"}
    assert all(path.read_bytes().startswith(beginnings[path.suffix]) for path in paths)
    svg = next(path for path in paths if path.name == "training.svg").read_text()
    assert "Attention" in svg
    assert "attention-heads=8" not in svg


def test_widths_and_formats() -> None:
    assert parse_width("3.3in") == 3.3
    assert parse_width("84mm") == pytest.approx(3.307, abs=1e-3)
    assert parse_width("240pt") == pytest.approx(10 / 3)
    assert require_formats("pdf, svg,pdf") == ("pdf", "svg")
    for text in ("84", "wide", "-3in", "3.3 miles", "1e9in"):
        with pytest.raises(ValueError, match="--width is a number with a unit"):
            parse_width(text)
    for wrong, why in (
        ({"formats": ("jpg",)}, "--format is a list of pdf, svg, png, not jpg"),
        ({"formats": ()}, "not empty"),
        ({"width": 0.2}, "--width is from 1in to 20in"),
        ({"font": 100.0}, "--font is from 3 to 40 points"),
    ):
        with pytest.raises(ValueError, match=why):
            Figures(**wrong)  # type: ignore[arg-type]  # the error is about them


def test_other_names(tmp_path: Path) -> None:
    rows = read(making.comparison(tmp_path, seeds=1, steps=30))
    renamed = rows.with_names({"attention-heads=8": "Attention", "she": "SHE"})
    assert renamed.baseline == "Attention"
    assert {each.matched_to for each in renamed.contenders} == {None, "SHE"}
    with pytest.raises(ValueError, match="there is no model 'atention'"):
        rows.with_names({"atention": "A"})
    with pytest.raises(ValueError, match="two models one name"):
        rows.with_names({"she": "performer"})
