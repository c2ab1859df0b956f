"""Each choice of a chart draws its own rows: the marks of the picture are counted."""

import html
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="altair is not installed")
pytest.importorskip("vl_convert", reason="vl-convert is not installed")

from seqloom.report import page
from seqloom.report.charts.chart import Chart
from seqloom.report.charts.draw import svg
from seqloom.report.read import read
from seqloom_studies.board import charts as board_charts
from seqloom_studies.board import table
from seqloom_studies.board.page_rows import Timed
from tests.report import making
from tests.studies.board import test_page as test_board

pytestmark = pytest.mark.slow

MARK = re.compile(r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="([^"]*)"')


def report(out: Path) -> list[Chart]:
    """The charts of a comparison in which one model was not timed, and another one's layers lie deeper."""
    path = making.comparison(out) / "comparison.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    untimed = next(one for one in whole["contenders"] if one["name"] == "performer")
    untimed["row"]["ms a step"] = untimed["seconds_a_batch"] = None
    for view in next(one for one in whole["contenders"] if one["name"] == "she")["views"]:
        view["layer"] += 1
    path.write_text(json.dumps(whole), encoding="utf-8")
    return page.Report.from_rows(read(out)).charts


def board() -> list[Chart]:
    """The board's charts; one row of three was timed, and the numbers of parameters differ."""
    rows = [
        {**row, "parameters": 2 * row["parameters"]} if row["contender"] == "gla" else row for row in test_board.rows()
    ]
    times = table.Times([Timed(contender="he", step=0.5, step_quartiles=[0.4, 0.625])])
    return board_charts.charts(test_board.board_of(rows), times)


def points(chart: Chart, choice: int) -> list[str]:
    """What each point of the picture says of itself, without the pieces of lines next to names."""
    marks = MARK.findall(svg(chart, choice))
    return [html.unescape(label) for label, mark in marks if mark == "point" and label.count(": ") > 2]


def lines(chart: Chart, choice: int) -> int:
    return sum(mark == "line mark" for _, mark in MARK.findall(svg(chart, choice)))


def test_the_lags_are_those_of_the_chosen_layer(tmp_path: Path) -> None:
    (chart,) = [chart for chart in report(tmp_path) if chart.name == "lags"]
    assert [choice.label for choice in chart.choices] == ["layer 0", "layer 1", "layer 2"]
    of_layer = [{str(row[0]) for row in chart.table.rows if row[1] == number} for number in range(3)]
    assert of_layer == [{"aft", "aft=she", "rwkv"}, {"aft", "aft=she", "rwkv", "she"}, {"she"}]
    for number, models in enumerate(of_layer):
        drawn = points(chart, number)
        rows = [row for row in chart.table.rows if row[1] == number]
        assert len(drawn) == len(rows) == making.CONTEXT * len(models)
        assert len(set(drawn)) == len(rows)
        assert lines(chart, number) == len(models)


def test_losses_are_drawn_of_the_models_whose_amount_is_known(tmp_path: Path) -> None:
    (chart,) = [chart for chart in report(tmp_path) if chart.name == "training"]
    for number, name in enumerate(("batches", "tokens", "operations", "seconds")):
        known = [row for row, x in zip(chart.table.rows, chart.table.column(name), strict=True) if x is not None]
        assert len(points(chart, number)) == len(known)
        assert lines(chart, number) == 2 * len({row[0] for row in known}), "medians, and the faint values"
        assert len(known) < len(chart.table.rows) or name != "seconds"


def test_the_board_is_drawn_of_the_rows_whose_price_is_known() -> None:
    chart = board()[0]
    assert [choice.label for choice in chart.choices] == ["ms a step", "parameters"]
    assert [len(points(chart, number)) for number in range(2)] == [1, 3]


def test_no_other_chart_has_a_choice(tmp_path: Path) -> None:
    charts = [*report(tmp_path), *board()]
    assert [chart.name for chart in charts if len(chart.choices) > 1] == ["training", "lags", "board"]
