"""`seqloom runs`: the runs below a folder, read from their files alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.cli import command
from seqloom.runs import checkpoint
from seqloom.runs.layout import open_run
from seqloom.runs.lock import is_held, lock
from seqloom.runs.metrics import Metrics


def made(folder: Path, mixer: str, lr: float, *, scored: bool) -> None:
    """A run of three batches."""
    settings: dict[str, Any] = {"format": 1, "model": {"mixer": {"kind": mixer}}, "training": {"lr": lr}}
    run = open_run(folder, settings)
    with Metrics(run.metrics) as rows:
        for step in (1, 2, 3):
            rows.append({"step": step, "loss": 5.0 - step, "seconds": 20.0})
        if scored:
            rows.append({"step": 3, "held_out": 2.5})


def test_state_loss_time_and_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path / "she" / "seed-0", "she", 0.001, scored=True)
    made(tmp_path / "he" / "seed-0", "he", 0.001, scored=False)
    open_run(tmp_path, {"study": "compare", "model": {}})
    assert command(["runs", str(tmp_path)]) == 0
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "state", "batches", "loss", "held-out", "h:m:s", "kind"]
    assert [line.split() for line in lines] == [
        ["he/seed-0", "stopped", "3", "2.000", "-", "1:00", "he"],
        ["she/seed-0", "done", "3", "2.000", "2.500", "1:00", "she"],
    ]
    with lock(tmp_path / "he" / "seed-0"):
        assert is_held(tmp_path / "he" / "seed-0")
        assert command(["runs", str(tmp_path), "--json"]) == 0
    assert not is_held(tmp_path / "he" / "seed-0")
    printed = json.loads(capsys.readouterr().out)["runs"]
    assert [run["state"] for run in printed] == ["training", "done"]
    assert printed[0]["settings"] == {"model.mixer.kind": "he"}


ODD_ROWS: list[dict[str, Any]] = [
    {"loss": "x", "seconds": 1.0},
    {"loss": [1], "seconds": "x"},
    {"loss": {}, "seconds": [2.0]},
    {"held_out": "x"},
    {"held_out": [3], "seconds": True},
    {"loss": 1e308, "seconds": 1e308},
    {"loss": -1, "seconds": -1, "held_out": -1},
    {"loss": None, "seconds": None, "held_out": None},
]


@pytest.mark.parametrize("row", ODD_ROWS)
def test_rows_that_no_training_wrote(tmp_path: Path, row: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path / "run", "she", 0.001, scored=True)
    with Metrics(tmp_path / "run/metrics.jsonl") as rows:
        rows.append({"step": 4, **row})
        rows.append({"step": 4, **row})
    assert command(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "run"


@pytest.mark.slow
@pytest.mark.parametrize("config", [{}, {"training": {}}, {"training": 3}, {"training": {"batches": "x"}}, 3, None])
def test_a_checkpoint_without_the_number_of_batches(
    tmp_path: Path, config: object, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "run", "she", 0.001, scored=True)
    checkpoint.save(tmp_path / "run/checkpoints", 3, {"model": {"w": torch.ones(2)}}, {"config": config})
    assert command(["runs", str(tmp_path)]) == 0
    state = "stopped" if config == {"training": {"batches": "x"}} else "done"
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["run", state]


def head_of(text: str) -> list[str]:
    """The headings of the settings."""
    return text.splitlines()[0].split()[6:]


def test_a_heading_is_the_whole_name_where_the_short_one_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (kind, mixer) in enumerate((("decoder", "he"), ("encoder", "she"))):
        training = {"batches": number + 5, "lr": number + 1.0}
        data = {"identity": str(number), "held_out": 0.1 * (number + 1)}
        model = {"kind": kind, "mixer": {"kind": mixer}, "mean": [float(number)], "labels": ["a"] * (9 + number)}
        open_run(tmp_path / str(number), {"format": 1, "model": model, "training": training, "data": data})
    assert command(["runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert head_of(out) == ["model.kind", "model.mixer.kind", "training.batches", "lr", "data.held_out"]
    assert "differ" not in out
    assert command(["runs", str(tmp_path), "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["runs"][0]["settings"]
    assert settings["data.identity"] == "0", "the JSON object has all"
    assert len(settings["model.labels"]) == 9


def test_only_the_settings_that_most_runs_have_are_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        own = {f"own_{number}_{setting}": "x" * 100 for setting in range(4)}
        common = {f"common_{setting}": number for setting in range(11)}
        open_run(tmp_path / str(number), {"format": 1, "model": {**own, **common}})
    assert command(["runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert head_of(out) == ["own_0_0", *(f"common_{setting}" for setting in range(11))]
    assert out.endswith("\n\n11 more settings differ: add --json to see them all\n")
    assert f"  {'x' * 37}...  " in out


def test_a_damaged_run_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path / "she", "she", 0.001, scored=True)
    made(tmp_path / "he", "he", 0.001, scored=True)
    (tmp_path / "he" / "config.json").write_text("{")
    assert command(["runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "damaged" in out
    assert "done" in out
    assert head_of(out) == [], "one run that can be read differs from no other"


@pytest.mark.parametrize(("folder", "says"), [("", "holds no run"), ("none", "does not exist")])
def test_a_folder_without_runs(tmp_path: Path, folder: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["runs", str(tmp_path / folder)]) == 2
    assert says in capsys.readouterr().err
