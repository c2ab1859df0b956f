"""A comparison: equal batches, a run per seed, resuming, and an error for changed settings."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.studies import study as experiment
from seqloom.studies.candidates import Candidate, parse_candidate
from seqloom.studies.study import Stopped
from seqloom.training.train import Outcome
from tests.studies.comparing import SMALL, THREE, compare, unclocked


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_the_same_call_trains_nothing_again(tmp_path: Path) -> None:
    first = compare(THREE[:2], "tiny", SMALL, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")}
    again = compare(THREE[:2], "tiny", SMALL, tmp_path)
    assert unclocked(again) == unclocked(first)
    assert {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")} == before


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_all_read_the_same_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.data.windows import Windows

    seen: list[list[int]] = []
    real = Windows.batch

    def noted(self: Windows, step: int, batch: int):
        result = real(self, step, batch)
        seen.append([step, *result.flatten().tolist()])
        return result

    monkeypatch.setattr(Windows, "batch", noted)
    compare(THREE, "tiny", SMALL, tmp_path)
    assert len(seen) % 3 == 0
    third = len(seen) // 3
    assert seen[:third] == seen[third : 2 * third] == seen[2 * third :]


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_other_settings_are_errors(tmp_path: Path) -> None:
    compare(THREE[:1], "tiny", SMALL, tmp_path)
    changes = {"training.lr": "0.5", "data.source": "stories:31:0", "data.seed": "3"}
    for name, value in changes.items():
        with pytest.raises(ValueError, match="on another text" if name == "data.source" else name):
            compare(THREE[1:2], "tiny", [*SMALL, f"{name}={value}"], tmp_path)
        assert not (tmp_path / THREE[1].name).exists()


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_a_compressed_memory_is_shown_filled(tmp_path: Path) -> None:
    """Its views are of a context and all that is remembered, next to the context of 16 of the other."""
    mixer = parse_candidate("compressive:heads=2,memory=8,compressed=4,rate=2")
    changes = [*SMALL, "model.position=none", "training.batches=2"]
    result = compare([mixer, parse_candidate("attention:heads=2")], "tiny", changes, tmp_path)
    views = {each.kind: {view.name: view.values for view in each.views} for each in result.contenders}
    ours, other = views["compressive"], views["attention"]
    for region in ("compressed", "memory", "sequence"):
        assert len(ours[f"attention to the {region}"]) == 16 + 8 + 2 * 4
    assert ours["attention to the compressed"][-1] > 0
    assert len(other["weights of head 0"]) == 16


@pytest.mark.parametrize("wrong", [[], THREE[:1] * 2])
def test_names_must_differ(tmp_path: Path, wrong: list[Candidate]) -> None:
    with pytest.raises(ValueError, match="different names"):
        compare(wrong, "tiny", SMALL, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_a_signal_stops_it_and_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compare(THREE[:2], "tiny", SMALL, tmp_path / "whole")
    real: Callable[..., Outcome] = experiment.train

    def interrupted(config, folder, **more):
        if folder.parent.name == "she":
            monkeypatch.setattr("seqloom.training.train.Metrics.append", ask_to_stop)
        return real(config, folder, **more)

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
    assert unclocked(compare(THREE[:2], "tiny", SMALL, tmp_path / "cut")) == unclocked(whole)
