"""Odd rows of a figure: one line that names the file, the line and the column; and figures of few rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom_studies.paper.charts import charts
from seqloom_studies.paper.compared import PEER
from seqloom_studies.paper.page import StudyReport
from seqloom_studies.paper.page_rows import read
from tests.studies.paper.made_up import Losses, plate, rows, write

MADE: Losses = {PEER: [3.0, 3.1], "she": [2.0, 2.1]}
FIGURE, CELL, *_ = rows(MADE)
RUN = {"line": 0, "seed": 0}
MEDIAN = {"row": "median", **RUN, "first": 1, "last": 100, "loss": 3.0}
SCORE = {"row": "held-out", **RUN, "step": 100, "loss": 3.0}
BATCHES = {"row": "batches", **RUN, "steps": [1, 2], "losses": [3.0, 2.0]}


def error_of(folder: Path, *made: dict[str, Any]) -> str:
    with pytest.raises(ValueError, match=r"fig8\.jsonl: .*make them again with `seqloom study paper`") as error:
        read(write(folder, made, "fig8"))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("batches", "3000"), ("batches", 0), ("stretch", -1), ("seeds", 0), ("seeds", 10**30), ("kind", "pie"),
        ("floor", float("nan")), ("unigram", 1e101), ("notes", "none"), ("origin", {}), ("name", 8), ("over", None),
        ("heading", None),
    ],
)  # fmt: skip
def test_an_odd_figure(tmp_path: Path, column: str, value: object) -> None:
    assert ": line 1: " in error_of(tmp_path, FIGURE | {column: value}, CELL)
    without = {name: other for name, other in FIGURE.items() if name != column}
    assert f"line 1: {column}: Field required" in error_of(tmp_path, without, CELL)


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (CELL | {"line": "0"}, "line 3: line: "),
        (CELL | {"seed": -1}, "line 3: seed: "),
        (CELL | {"x": 0}, "line 3: x"),
        (CELL | {"training": "3"}, "line 3: training: "),
        (CELL | {"held_out": 1e999}, "line 3: "),
        (CELL | {"finished": 1}, "line 3: finished: "),
        (CELL | {"parameters": 10**400}, "line 3: parameters: "),
        ({"row": "cell"}, "line 3: line: Field required"),
        (MEDIAN | {"loss": None}, "line 3: loss: "),
        (MEDIAN | {"seed": 9}, "line 3: there is no run of its line and seed"),
        (SCORE | {"step": -1}, "line 3: step: "),
        (BATCHES | {"steps": [1]}, "line 3: not as many losses as steps"),
        (BATCHES | {"losses": [3.0, "2"]}, "line 3: losses.1: "),
    ],
)
def test_an_odd_row(tmp_path: Path, odd: dict[str, Any], says: str) -> None:
    assert says in error_of(tmp_path, FIGURE, CELL, odd)


def test_files_of_something_else(tmp_path: Path) -> None:
    assert "no rows of a figure" in error_of(tmp_path)
    assert "no rows of a figure" in error_of(tmp_path, CELL)
    assert "no row of a run" in error_of(tmp_path, FIGURE)
    path = tmp_path / "fig8.jsonl"
    for text, says in (("[1]\n", "line 1: no row of a figure"), ("{\n", "line 1: not JSON")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=says):
            read(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["curves", "batches", "sweep", "points"])
def test_the_page_of_one_run(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, [FIGURE | {"kind": kind, "over": "heads", "unigram": None}, CELL | {"x": 1}], "fig8")
    report = StudyReport.from_rows(read(path))
    assert len(report.table) == 1
    assert all(json.dumps(chart.specification(), allow_nan=False) for chart in report.charts)


def test_lines_may_have_other_seeds(tmp_path: Path) -> None:
    """Differences are of the same seed, and a sweep has the seeds that each line has."""
    _, one, two, *others = rows(MADE, kind="curves")
    medians = [MEDIAN | {"line": row["line"], "seed": row["seed"], "loss": row["training"]} for row in (one, *others)]
    study = read(write(tmp_path, [FIGURE, one, *others, *medians], "fig8"))
    (difference,) = (chart for chart in charts(study) if chart.name == "fig8-to-32-heads")
    assert [list(row) for row in difference.table.rows] == [["she", 50.5, -1, -1, -1]]
    varied = {(series, x): losses for series in ("he", "we") for x, losses in ((1.0, [3.0, 2.0]), (2.0, [2.5, None]))}
    drawn = charts(plate(tmp_path, varied, kind="sweep", over="depth"))
    assert drawn[0].table.rows[0] == ["he (unfinished)", 1, 2.5, 2, 3]
    assert two["seed"] == 1
