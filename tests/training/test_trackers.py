"""Trackers get a copy of each row; a failing one does not stop the run; a missing one is an error at the start."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from seqloom.runs.layout import find_run
from seqloom.runs.metrics import read
from seqloom.training import trackers
from tests.training.running import tiny


class Recorder(trackers.Tracker):
    """Keeps what it is given; `fails` is the name of the method that raises."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.started: list[tuple[str, int]] = []
        self.identities: list[str] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.closed = 0

    def start(self, folder: Path, identity: str, settings: Any, step: int) -> None:
        self._perhaps("start")
        self.started.append((settings["model.mixer.kind"], step))
        self.identities.append(identity)

    def log(self, step: int, values: Any) -> None:
        self._perhaps("log")
        self.logged.append((step, dict(values)))

    def close(self) -> None:
        self._perhaps("close")
        self.closed += 1

    def _perhaps(self, method: str) -> None:
        if method == self.fails:
            raise OSError(f"{method} went wrong\nand a second line")


def recording(monkeypatch: pytest.MonkeyPatch, **those: Recorder) -> None:
    monkeypatch.setattr(trackers, "TRACKERS", {name: lambda r=r: r for name, r in those.items()})
    monkeypatch.setattr(trackers, "find_spec", lambda name: object())


@pytest.mark.slow
def test_a_tracker_gets_every_row_in_order_and_a_resumed_run_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Recorder(), Recorder()
    recording(monkeypatch, one=first)
    tiny(tmp_path / "run", "training.batches=3", trackers=["one", "one"])
    recording(monkeypatch, one=second)
    tiny(tmp_path / "run", trackers=["one"])
    assert first.started == [("she", 0)]
    assert second.started == [("she", 3)]
    assert (first.closed, second.closed) == (1, 1)
    rows = [(row["step"], trackers.numbers(row)) for row in read(tmp_path / "run" / "metrics.jsonl")]
    assert first.logged + second.logged == rows
    assert "by_position" not in rows[3][1]


@pytest.mark.slow
def test_runs_in_folders_of_one_name_are_different_and_a_continued_run_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    recording(monkeypatch, one=recorder)
    for mixer, batches in (("she", 3), ("gru", 3), ("she", 6)):
        settings = [f"model.mixer={{kind: {mixer}}}", f"training.batches={batches}"]
        tiny(tmp_path / mixer / "seed-0", *settings, trackers=["one"])
    she, gru, continued = recorder.identities
    assert she == continued == stored_identity(tmp_path / "she" / "seed-0")
    assert gru == stored_identity(tmp_path / "gru" / "seed-0") != she


def stored_identity(folder: Path) -> str:
    return find_run(folder).identity


@pytest.mark.slow
@pytest.mark.parametrize("method", ["start", "log", "close"])
def test_a_failing_tracker_is_reported_once_and_the_others_go_on(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = Recorder()
    recording(monkeypatch, bad=Recorder(method), good=good)
    lines: list[str] = []
    outcome = tiny(tmp_path / "run", trackers=["bad", "good"], say=lines.append)
    assert outcome.step == 9
    assert [line for line in lines if line.startswith("tracker")] == [
        f"tracker bad failed and is switched off, the training goes on: {method} went wrong"
    ]
    assert len(good.logged) == len(read(tmp_path / "run" / "metrics.jsonl"))


def test_a_tracker_that_is_unknown_or_not_installed_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="tracker wandb is not installed: pip install 'seqloom\\[wandb\\]'"):
        tiny(tmp_path / "run", trackers=["wandb"])
    with pytest.raises(ValueError, match="did you mean 'tensorboard'"):
        tiny(tmp_path / "run", trackers=["tensorbord"])
    assert not (tmp_path / "run").exists()


def test_each_tracker_calls_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def run(**arguments: Any) -> Any:
        calls.append((arguments["name"], arguments.get("id")))
        return SimpleNamespace(
            log=lambda values, step: calls.append((step, values)), finish=lambda: calls.append("end")
        )

    for name in ("wandb", "trackio"):
        package = ModuleType(name)
        package.init, package.Settings = run, dict  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, package)
        tracker = trackers.TRACKERS[name]()
        tracker.start(tmp_path / "he" / "seed-0", "0123456789ab", {"a": 1}, 0)
        tracker.log(7, {"loss": 1.5})
        tracker.close()
    logged = [(7, {"loss": 1.5}), "end"]
    wandb, trackio = ("he/seed-0", "0123456789ab"), ("he/seed-0 01234567", None)
    assert calls == [wandb, *logged, trackio, *logged]


@pytest.mark.slow
@pytest.mark.parametrize("name", trackers.TRACKERS)
def test_the_packages_themselves(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path), "HF_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(variable, value)
    if find_spec(name) is None:  # trackio reads its folder from the environment when it is imported
        pytest.skip(f"pip install 'seqloom[{name}]'")
    lines: list[str] = []
    tiny(tmp_path / "run", trackers=[name], say=lines.append)
    assert not [line for line in lines if line.startswith("tracker")]
    assert list(tmp_path.rglob({"tensorboard": "events.*", "wandb": "*.wandb", "trackio": "*.db"}[name]))


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_tracker_does_not_write_through_a_link(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    note = lambda *values, **named: started.append(values)  # noqa: E731
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(Settings=lambda **_: None, init=note))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=note))
    (tmp_path / name).symlink_to(tmp_path.parent)
    with pytest.raises(ValueError, match=f"{name} is a link"):
        trackers.TRACKERS[name]().start(tmp_path, "0" * 64, {}, 3)
    assert not started
