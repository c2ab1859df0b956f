"""The page with its charts: valid specifications, in few bytes, and no external address."""

import re
from pathlib import Path

import pytest

from seqloom.report import page
from seqloom.report.read import read as rows_of
from tests.report import making
from tests.report.reading import data, read

alt = pytest.importorskip("altair", reason="altair is not installed")
pytest.importorskip("vl_convert", reason="vl-convert is not installed")
pytestmark = pytest.mark.usefixtures("drawn_charts")


@pytest.mark.slow
def test_every_choice_is_drawn_from_the_rows(tmp_path: Path) -> None:
    result = read(page.write(making.comparison(tmp_path)).read_text(encoding="utf-8"))
    report = page.Report.from_rows(rows_of(tmp_path))
    for chart in report.charts:
        figure = next(each for each in result.all("figure") if each.attributes.get("data-chart") == chart.name)
        names = {option.text for option in figure.all("option")}
        assert names == (set() if len(chart.choices) == 1 else {choice.label for choice in chart.choices})
        for at, written in enumerate(data(result)["charts"][chart.name]["choices"]):
            whole = chart.specification(at)
            assert written["layer"] == whole["layer"]
            alt.Chart.from_dict(whole)  # checks it against the schema of Vega-Lite


@pytest.mark.slow
def test_a_page_of_40_models_is_small_and_names_nothing_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "KINDS", [f"mixer_{at}" for at in range(39)])
    path = page.write(making.comparison(tmp_path, steps=3000, seeds=1))
    assert path.stat().st_size < 4_000_000
    result = read(path.read_text(encoding="utf-8"))
    assert len(result.one("table", id="models").one("tbody").all("tr")) == 40
    assert not re.search(r"https?://", result.one("script", id="data").text)
    sources = [each.attributes.get("src", "data:") for tag in ("script", "img") for each in result.all(tag)]
    assert all(source.startswith("data:") for source in sources)
