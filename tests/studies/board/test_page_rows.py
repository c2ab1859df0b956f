"""Odd rows of the board, its times and its probes: one line that names the file, the line and the column."""

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.runs.layout import seal_settings
from seqloom_studies.board import table
from seqloom_studies.board.charts import price, recall
from seqloom_studies.board.page_rows import read_recalled, read_times
from seqloom_studies.board.rows import finished_lines, stored_lines
from tests.studies.board.test_page import LINEUP, board_of, row

TIME = {"contender": "he", "step": 0.5, "step_quartiles": [0.4, 0.6]}
PROBE = {"mixer": "gla", "dim": 32, "lr": 1e-3, "distance": None, "probe": "mqar", "difficulty": 1, "accuracy": 0.5,
         "state_bytes": 4096}  # fmt: skip
ROW = {**row("he", 0, 1.9), "ffn": 8, "embedding": 9, "seconds": 1.0, "training": 1.0, "loss": 1.0,
       "bits_per_byte_long": 1.8, "cell": "he"}  # fmt: skip


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"contender": None}, "line 2: contender: "),
        ({"step": "0.5"}, "line 2: step: "),
        ({"step": float("nan")}, "line 2: step: Input should be a finite number"),
        ({"step": 1e101}, "line 2: step: "),
        ({"step_quartiles": [1.0]}, "line 2: step_quartiles: "),
        ({"tokens": -1}, "line 2: tokens: "),
        ({"tokens": 10**400}, "line 2: tokens: "),
        ({"ms_per_token": []}, "line 2: ms_per_token: "),
    ],
)
def test_odd_times(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"times.jsonl: {says}.*put back the file as it was written") as error:
        read_times(written(tmp_path / "times.jsonl", TIME, TIME | change))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("column", "value"),
    [("mixer", 1), ("dim", "32"), ("lr", None), ("difficulty", -1), ("distance", 3), ("accuracy", 1.5)],
)
def test_odd_probes(tmp_path: Path, column: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"probes.jsonl: line 1: {column}: .*these are no probes of recall"):
        read_recalled(written(tmp_path / "probes.jsonl", PROBE | {column: value}))
    without = {name: other for name, other in PROBE.items() if name != column}
    with pytest.raises(ValueError, match=rf"line 2: {column}: Field required"):
        read_recalled(written(tmp_path / "probes.jsonl", PROBE, without))


def test_lines_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    assert read_times(path) == read_recalled(path) == []
    with pytest.raises(ValueError, match="line 1: Input should be a valid dictionary"):
        read_times(written(path, [1]))
    path.write_text("{\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1 is not JSON"):
        read_times(path)
    path.write_text("", encoding="utf-8")
    assert read_times(path) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("lr", 0), ("lr", "1e-3"), ("lr", 1e101), ("seed", -1), ("seed", True), ("batches", 10**30), ("contender", 3),
        ("validation", 1e101), ("bits_per_byte", "2"), ("by_position", {"1-64": "2"}), ("authors", []),
        ("state_bytes", {"2048": -1}), ("parameters", -1), ("failed", 1),
    ],
)  # fmt: skip
def test_odd_rows(tmp_path: Path, column: str, value: object) -> None:
    path = written(tmp_path / "board.jsonl", ROW, ROW | {"digest": "other", column: value})
    with pytest.raises(ValueError, match=r"board\.jsonl: line 2 is no row of the comparison"):
        stored_lines(path)
    assert list(stored_lines(written(path, ROW))) == ["he 0 0.002"]


def test_a_finished_run_with_other_rows_is_named(tmp_path: Path) -> None:
    content = {"format": 1, "cell": "x", "rows": [{"digest": "d"}], "origin": {}}
    (tmp_path / "rows.json").write_bytes(seal_settings(content))
    with pytest.raises(ValueError, match=r"rows\.json has rows of something else than this comparison: choose another"):
        finished_lines(tmp_path)


def test_a_run_without_a_score_is_no_result() -> None:
    board = board_of([row("he", 0, 1.9), row("attention", 0, 2.0), row("he", 1, None) | {"failed": None}])
    assert board.standings["he"].runs == {0: 1.9}


def test_authors_may_be_unknown() -> None:
    board = board_of([row("attention", 0, 2.0) | {"fold": 0, "authors": {}, "tokens": {}}], LINEUP)
    assert "All other authors are dealt into folds" in " ".join(table.notes(board, table.Times([])))


def test_times_of_other_models_are_not_drawn(tmp_path: Path) -> None:
    board = board_of([row("he", 0, 1.9), row("attention", 0, 2.0)])
    times = table.Times(read_times(written(tmp_path / "times.jsonl", TIME | {"contender": "she"})))
    assert price(board, times) is None
    assert price(board, table.Times(read_times(written(tmp_path / "times.jsonl", TIME)))) is not None


@pytest.mark.slow
def test_one_probe_is_drawn(tmp_path: Path) -> None:
    chart = recall(read_recalled(written(tmp_path / "probes.jsonl", PROBE)))
    assert chart is not None
    assert chart.table.rows == [["gla 32", 4096, 0.5, 0.5, 0.5]]
    assert json.dumps(chart.specification(), allow_nan=False)
    assert recall(read_recalled(written(tmp_path / "probes.jsonl", PROBE | {"state_bytes": 0}))) is None
