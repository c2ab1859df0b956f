"""A comparison: equal batches, a run a seed, rows that are the runs' own numbers, and no mixing of settings."""

import json
import os
import signal
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.cli import command
from seqloom.experiments import compare as experiment
from seqloom.experiments.compare import Contender, Stopped, compare, contender
from seqloom.runs.metrics import read
from seqloom.training.train import Outcome

SMALL = ["data.source=stories:30:0", "training.batches=6", "training.save_every=3"]
THREE = [contender(text) for text in ("attention:heads=2", "she", "extractor:groups=shared,in_proj=true")]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def test_a_contender_is_a_kind_with_settings() -> None:
    assert contender("she") == Contender("she", ("model.mixer.kind=she",))
    found = contender("extractor:groups=4,in_proj=true")
    assert found.name == "extractor-groups=4-in_proj=true"
    assert found.changes == ("model.mixer.kind=extractor", "model.mixer.groups=4", "model.mixer.in_proj=true")


@pytest.mark.parametrize("text", ["", ":heads=2", "attention:heads"])
def test_what_is_no_contender(text: str) -> None:
    with pytest.raises(ValueError, match="attention:heads=32"):
        contender(text)


def test_rows_are_the_runs_numbers(tmp_path: Path) -> None:
    rows, last = compare(THREE, "tiny", SMALL, tmp_path, seeds=2, look=lambda outcome: {"steps": outcome.step})
    assert {row["model"] for row in rows} == {each.name for each in THREE}
    assert [row["held-out cost"] for row in rows] == sorted(row["held-out cost"] for row in rows)
    for row in rows:
        runs = [read(tmp_path / row["model"] / f"seed-{seed}" / "metrics.jsonl") for seed in (0, 1)]
        held = [run[-1]["held_out"] for run in runs]
        assert held[0] != held[1], "seeds draw other weights"
        assert row["held-out cost"] == pytest.approx(statistics.mean(held))
        assert row["± held-out"] == pytest.approx(12.71 * statistics.stdev(held) / 2**0.5)
        costs = [statistics.median(step["cost"] for step in run if "cost" in step) for run in runs]
        assert row["training cost"] == pytest.approx(statistics.mean(costs))
        assert row["steps"] == 6
    assert last.run.folder == tmp_path / THREE[-1].name / "seed-1"


def test_the_same_call_trains_nothing_again(tmp_path: Path) -> None:
    first, _ = compare(THREE[:2], "tiny", SMALL, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")}
    again, _ = compare(THREE[:2], "tiny", SMALL, tmp_path)
    assert again == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")} == before


def test_all_read_the_same_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.data.windows import Windows

    seen: list[list[int]] = []
    real = Windows.batch

    def noted(self: Windows, step: int, batch: int):
        found = real(self, step, batch)
        seen.append([step, *found.flatten().tolist()])
        return found

    monkeypatch.setattr(Windows, "batch", noted)
    compare(THREE, "tiny", SMALL, tmp_path)
    assert len(seen) % 3 == 0
    third = len(seen) // 3
    assert seen[:third] == seen[third : 2 * third] == seen[2 * third :]


@pytest.mark.parametrize(
    ("change", "words"),
    [("training.lr=0.5", "training.lr"), ("data.source=stories:31:0", "data.identity"), ("data.seed=3", "data.seed")],
)
def test_other_settings_are_refused(tmp_path: Path, change: str, words: str) -> None:
    compare(THREE[:1], "tiny", SMALL, tmp_path)
    with pytest.raises(ValueError, match=words):
        compare(THREE[1:2], "tiny", [*SMALL, change], tmp_path)
    assert not (tmp_path / THREE[1].name).exists()


@pytest.mark.parametrize("wrong", [[], THREE[:1] * 2])
def test_names_must_differ(tmp_path: Path, wrong: list[Contender]) -> None:
    with pytest.raises(ValueError, match="different names"):
        compare(wrong, "tiny", SMALL, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_signal_stops_it_and_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = compare(THREE[:2], "tiny", SMALL, tmp_path / "whole")
    real: Callable[..., Outcome] = experiment.train

    def interrupted(config, folder):
        if folder.parent.name == "she":
            monkeypatch.setattr("seqloom.training.train.Metrics.append", ask_to_stop)
        return real(config, folder)

    from seqloom.runs.metrics import Metrics

    append = Metrics.append

    def ask_to_stop(self: Metrics, row: dict[str, object]) -> None:
        append(self, row)
        if row["step"] == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "train", interrupted)
        with pytest.raises(Stopped) as stopped:
            compare(THREE[:2], "tiny", SMALL, tmp_path / "cut")
        assert stopped.value.code == 128 + signal.SIGTERM
    monkeypatch.setattr("seqloom.training.train.Metrics.append", append)
    clocks = ("ms a step", "tokens a second")
    again, _ = compare(THREE[:2], "tiny", SMALL, tmp_path / "cut")
    assert [{k: v for k, v in row.items() if k not in clocks} for row in again] == [
        {k: v for k, v in row.items() if k not in clocks} for row in whole
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = [word for change in SMALL for word in ("--set", change)]
    assert command(["compare", "she", "me", "--preset", "tiny", "--out", str(tmp_path), *sets]) == 0
    out = capsys.readouterr().out
    assert "held-out cost" in out
    assert {line.split()[0] for line in out.splitlines()[3:]} == {"she", "me"}
    kept = json.loads((tmp_path / "table.json").read_text())
    assert {row["model"] for row in kept["rows"]} == {"she", "me"}
    assert command(["compare", "shee", "--preset", "tiny", "--out", str(tmp_path / "x"), *sets]) == 2
    assert "did you mean 'she'?" in capsys.readouterr().err
