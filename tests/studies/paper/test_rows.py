"""Cells are trained once and resume; unfinished ones are shown too; all from stored rows."""

import json
import os
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest

from seqloom.analysis.measure import Timing
from seqloom.core.model_config import ModelConfig
from seqloom.runs.metrics import Metrics
from seqloom.runs.rows import encode
from seqloom.studies import plan as planning
from seqloom.studies.plan import plan
from seqloom.studies.results import Results
from seqloom.studies.runner import known_results, run
from seqloom.studies.study import Stopped
from seqloom.training.config import TrainConfig
from seqloom_studies.paper.cells import Paper, failures
from seqloom_studies.paper.grid import Cell, Grid
from seqloom_studies.paper.progress import Progress, progress
from seqloom_studies.paper.rows import write
from seqloom_studies.paper.scales import scale_of
from seqloom_studies.paper.studies import STUDIES
from seqloom_studies.paper.study import Study

TWO = ["she", "attention:heads=32"]


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return Grid(scale_of("tiny"), tmp_path)


def trained(grid: Grid, study: Study, seeds: int = 1) -> Results:
    return run(Paper(grid, [(study, seeds)], raced=False).study, grid.out)


def left(grid: Grid, study: Study, seeds: int = 1) -> list[str]:
    """The runs that are not done."""
    result = known_results(Paper(grid, [(study, seeds)], raced=False).study, grid.out)
    return [cell.name for cell in study.cells(seeds) if f"cells/{cell.name}" not in result.rows]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_medians_over_whole_stretches() -> None:
    losses = [(step, float(loss)) for step, loss in enumerate([9, 1, 5, 2, 8, 3, 7], 1)]
    result = Progress(7, losses, [], None)
    assert result.medians(3) == [(1, 3, 5.0), (4, 6, 3.0)]
    assert result.medians(7) == [(1, 7, 5.0)]
    assert result.medians(8) == []


def test_progress(tmp_path: Path) -> None:
    assert progress(tmp_path, 4) == Progress(4, [], [], None)
    lines: list[dict[str, Any]] = [{"step": step, "loss": 5.0 - step, "seconds": step} for step in (1, 2, 3, 4)]
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(encode(line) for line in lines))
    assert not progress(tmp_path, 4).is_finished, "it is not scored yet"
    with pytest.raises(ValueError, match="was trained for 4 batches, not 3: ask for as many or another --out"):
        progress(tmp_path, 3)
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(encode({"step": 4, "held_out": 3.5}))
    result = progress(tmp_path, 4)
    assert result.is_finished
    assert (result.batches, result.held_out, result.seconds) == (4, [(4, 3.5)], 2.5)
    assert not progress(tmp_path, 5).is_finished


@pytest.mark.slow
def test_rows_are_the_runs_and_finished_cells_are_left_alone(grid: Grid) -> None:
    study = STUDIES["fig8"](grid).only(TWO)
    cells = study.cells(2)
    assert trained(grid, study, 2).failed == {}
    before = {cell: (grid.folder(cell) / "metrics.jsonl").read_bytes() for cell in cells}
    assert left(grid, study, 2) == []
    figure, *actual = write(grid, study, 2, command="seqloom paper fig8")
    assert rows(grid.out / "fig8.jsonl") == [figure, *actual]
    assert (figure["scale"], figure["seeds"], figure["batches"], figure["stretch"]) == ("tiny", 2, 12, 1)
    assert figure["paired"] is False, "seeds draw weights and dropout alone"
    assert 0 < figure["floor"] < figure["unigram"]
    assert "dim 32 (paper: 128)" in figure["differs"]
    for cell in cells:
        own = rows(grid.folder(cell) / "metrics.jsonl")
        of_cell = [row for row in actual if row["cell"] == cell.name]
        expected = next(row for row in of_cell if row["row"] == "cell")
        losses = [row["loss"] for row in own if "loss" in row]
        assert [row["loss"] for row in of_cell if row["row"] == "median"] == losses
        assert [(row["step"], row["loss"]) for row in of_cell if row["row"] == "held-out"] == [
            (row["step"], row["held_out"]) for row in own if "held_out" in row
        ]
        assert expected["finished"]
        assert expected["held_out"] == own[-1]["held_out"]
        assert expected["training"] == losses[-1]
        assert expected["seconds"] == statistics.median(row["seconds"] for row in own if "seconds" in row)
        assert expected["parameters"] == {"she": 42828, "attention-heads=32": 28492}[expected["series"]]
    assert {cell: (grid.folder(cell) / "metrics.jsonl").read_bytes() for cell in cells} == before


@pytest.mark.slow
def test_another_figure_takes_the_same_cells(grid: Grid) -> None:
    trained(grid, STUDIES["fig8"](grid).only(["attention:heads=32"]))
    assert left(grid, STUDIES["fig7"](grid)) == ["attention-heads=1.seed-0", "attention-heads=4.seed-0"]


@pytest.mark.slow
def test_a_signal_stops_it_and_it_goes_on(grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = STUDIES["fig9"](grid)
    append = Metrics.append

    def ask_to_stop(self: Metrics, row: dict[str, object]) -> None:
        append(self, row)
        if row["step"] == 5 and "she" in str(self._path):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Metrics, "append", ask_to_stop)
    with pytest.raises(Stopped) as stopped:
        trained(grid, study)
    assert stopped.value.code == 128 + signal.SIGTERM
    monkeypatch.setattr(Metrics, "append", append)
    she = Cell(grid.model("she"), 0)
    assert left(grid, study) == ["she.seed-0"]
    _, *actual = write(grid, study, 1)
    expected = {row["series"]: row for row in actual if row["row"] == "cell"}
    assert (expected["she"]["batches"], expected["she"]["finished"], expected["she"]["held_out"]) == (5, False, None)
    assert expected["attention-heads=32"]["finished"]
    trained(grid, study.only(["she"]))
    other = Grid(scale_of("tiny"), tmp_path / "whole")
    trained(other, study.only(["she"]))
    losses = [progress(each.folder(she), 12).losses for each in (grid, other)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_a_run_that_fails_is_a_row_and_the_others_go_on(grid: Grid, capsys: pytest.CaptureFixture[str]) -> None:
    study = STUDIES["fig9"](grid)
    bad = grid.folder(Cell(grid.model("attention:heads=32"), 0))
    bad.mkdir(parents=True)
    (bad / "metrics.jsonl").write_text("")  # a run without its settings
    failed = failures(trained(grid, study))
    assert list(failed) == ["attention-heads=32.seed-0"]
    assert "config.json" in failed["attention-heads=32.seed-0"]
    assert "cells/attention-heads=32.seed-0 failed: " in capsys.readouterr().err
    assert left(grid, study) == ["attention-heads=32.seed-0"]
    _, *result = write(grid, study, 1, failed=failed)
    assert [row["failed"] for row in result if row["row"] == "cell"] == [failed["attention-heads=32.seed-0"], None]


@pytest.mark.slow
def test_every_batch_of_figure_9(grid: Grid) -> None:
    study = STUDIES["fig9"](grid).only(["she"])
    trained(grid, study, 3)
    _, *result = write(grid, study, 3)
    every = [row for row in result if row["row"] == "batches"]
    assert len(every) == 1, "one seed alone"
    assert every[0]["steps"] == list(range(1, 13))
    assert every[0]["losses"] == [loss for _, loss in progress(grid.folder(Cell(grid.model("she"), 0)), 12).losses]


@pytest.mark.slow
def test_the_plan_reads_or_times(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped: list[str] = []

    def step(model: ModelConfig, training: TrainConfig) -> Any:
        stepped.append(model.mixers[0].kind)
        return lambda: None

    monkeypatch.setattr(planning, "training_step", step)
    monkeypatch.setattr(planning, "seconds", lambda run, repeats: Timing((3600.0,)))
    study = STUDIES["fig8"](grid).only(TWO)
    result = plan(Paper(grid, [(study, 1)]).study, grid.out)
    assert stepped == ["attention", "she"]
    scoring = 2 * len(grid.corpus.held_out) / (4 * 16) / 3
    assert result.hours == pytest.approx(2 * (12 + scoring))
    assert "2 runs of 24 batches in all, 0 finished" in str(result)
    assert [part.parameters for part in result.parts] == [28492, 42828]
    assert not (grid.out / "cells").exists(), "a plan trains nothing"
    monkeypatch.setattr(planning, "ENOUGH", 5)
    trained(grid, study.only(TWO[1:]))
    stepped.clear()
    rest = plan(Paper(grid, [(study, 2)]).study, grid.out)
    assert stepped == ["she"], "the rows of a finished run say what a batch of its model takes"
    assert [(part.runs, part.finished) for part in rest.parts] == [(2, 1), (2, 0)]
    assert [part.timed for part in rest.parts] == ["its rows", "3 steps now"]


@pytest.mark.slow
def test_out_belongs_to_one_scale_and_text(grid: Grid) -> None:
    trained(grid, STUDIES["fig9"](grid).only(["she"]))
    for other in (
        Grid(scale_of("small"), grid.out, source="stories:60:0", sets=["data.vocab=300"]),
        Grid(scale_of("tiny"), grid.out, source="stories:50:0"),
        Grid(scale_of("tiny"), grid.out, sets=["training.lr=0.1"]),
    ):
        with pytest.raises(ValueError, match=r"of other settings|on another text"):
            trained(other, STUDIES["fig9"](other).only(["she"]))
