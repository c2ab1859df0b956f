"""Several runs in one process, a step of each in turn: each is what it is alone."""

import signal
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from seqloom.models import transformer
from seqloom.runs.metrics import Metrics
from seqloom.training.losses import NotFinite
from seqloom.training.settings import resolve
from seqloom.training.together import _Lane, train_together
from seqloom.training.train import Outcome
from tests.training.recorded import on_a_cpu
from tests.training.running import SMALL, newest, same, tiny

WINDOWS = "training.stages=[{batches: 4, window: 3, context: 8}, {batches: 5, window: 12, lr: 3e-4}]"
RUNS = {
    "0": ("training.seed=0",),
    "1": ("training.seed=1", "training.batches=7"),
    "2": ("training.seed=2", "model.mixer={kind: attention, heads: 2, window: 12}", WINDOWS),
}


def together(folder: Path, runs: dict[str, tuple[str, ...]] = RUNS) -> list[Outcome | ValueError]:
    configs = [resolve("tiny", [*SMALL, *changes]) for changes in runs.values()]
    return train_together(configs, [folder / name for name in runs], say=lambda line: None)


@pytest.mark.slow
@pytest.mark.parametrize("graph", [True, False])
def test_each_run_is_what_it_is_alone(out: Path, monkeypatch: pytest.MonkeyPatch, graph: bool) -> None:
    """Seeds, a shorter run, and one with stages, with dropout; captured by graphs on a CPU, and uncaptured."""
    if graph:
        on_a_cpu(monkeypatch)
    outcomes = together(out / "together")
    for name, changes in RUNS.items():
        alone = tiny(out / "alone" / name, *changes, say=lambda line: None)
        same(out / "together" / name, out / "alone" / name)
        (outcome,) = [one for one in outcomes if isinstance(one, Outcome) and one.run.folder.name == name]
        assert (outcome.step, outcome.summary) == (alone.step, alone.summary)
        assert newest(out / "together" / name).meta["surroundings"].get("graph") == ("capture" if graph else None)


@pytest.mark.slow
def test_a_signal_saves_them_all_and_they_go_on(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"0": ("training.seed=0",), "1": ("training.seed=1",)}
    append = Metrics.append

    def watched(metrics: Metrics, row: dict[str, Any]) -> None:
        append(metrics, row)
        if row["step"] == 4 and "loss" in row and metrics._path.parent.name == "1":
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Metrics, "append", watched)
        outcomes = together(out / "together", runs)
    assert [one.asked for one in outcomes if isinstance(one, Outcome)] == [signal.SIGTERM] * 2
    assert [newest(out / "together" / name).step for name in runs] == [4, 4]
    together(out / "together", runs)
    for name, changes in runs.items():
        tiny(out / "alone" / name, *changes, say=lambda line: None)
        same(out / "together" / name, out / "alone" / name)


@pytest.mark.slow
def test_a_run_that_fails_leaves_the_others(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose loss is not finite, and one whose settings are those of no run of its folder."""
    tiny(out / "together" / "2", "training.batches=1", "training.lr=0.5")
    outcomes = together(out / "together", {"0": ("training.lr=1e30",), "1": (), "2": ()})
    failed, whole, other = outcomes
    assert isinstance(failed, NotFinite)
    assert "step 2: the training loss is" in str(failed)
    assert isinstance(whole, Outcome)
    assert isinstance(other, ValueError)
    assert "training.lr is 0.5 there" in str(other)
    tiny(out / "alone")
    same(out / "together" / "1", out / "alone")


@pytest.mark.slow
def test_a_fault_of_ours_ends_all_of_them(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each at its last checkpoint, from which it goes on: nothing stays locked."""
    runs = {"0": ("training.seed=0",), "1": ("training.seed=1",)}
    calls = iter(range(1, 1000))
    real = transformer.linear_cross_entropy

    def cross_entropy(*values: Any) -> Any:
        if next(calls) == 2 + 2 * 4 + 1:  # two look at the backends first
            raise OSError("the disk is gone")
        return real(*values)

    with monkeypatch.context() as patch:
        patch.setattr(transformer, "linear_cross_entropy", cross_entropy)
        with pytest.raises(OSError, match="the disk is gone"):
            together(out / "together", runs)
    assert all(isinstance(one, Outcome) for one in together(out / "together", runs))
    for name, changes in runs.items():
        tiny(out / "alone" / name, *changes)
        same(out / "together" / name, out / "alone" / name)


def test_folders_that_are_not_one_a_run(out: Path) -> None:
    config = resolve("tiny", SMALL)
    for folders in ([out], [out / "a", out / "." / "a"]):
        with pytest.raises(ValueError, match="2 runs need as many different folders"):
            train_together([config, config], folders)
    assert not out.exists()


def test_a_turn_on_a_gpu_has_its_stream_random_numbers_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves those of the process, also where the run fails."""
    default = SimpleNamespace(state="of the process")
    default.clone_state = lambda: f"own {next(names)}"
    default.graphsafe_get_state = lambda: default.state
    default.graphsafe_set_state = lambda state: setattr(default, "state", state)
    names = iter("ab")
    streams: list[Any] = []

    @contextmanager
    def stream(own: Any) -> Any:
        streams.append(own)
        yield
        streams.pop()

    monkeypatch.setattr(torch.cuda, "default_generators", [default])
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    made = iter(("stream a", "stream b"))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: next(made))
    monkeypatch.setattr(torch.cuda, "stream", stream)
    seen: list[Any] = []

    def run(threads: int) -> Any:
        for _ in range(2):
            seen.append((default.state, tuple(streams), torch.get_num_threads()))
            torch.set_num_threads(threads)
            yield
        raise ValueError("no more")

    before = torch.get_num_threads()
    lanes = [_Lane(run(threads), torch.device("cuda")) for threads in (before + 1, before + 2)]
    for _ in range(3):
        for lane in lanes:
            lane.turn()
            assert (default.state, streams, torch.get_num_threads()) == ("of the process", [], before)
    assert [str(lane.result) for lane in lanes] == ["no more", "no more"]
    a, b = ("own a", ("stream a",)), ("own b", ("stream b",))
    assert seen == [(*a, before), (*b, before), (*a, before + 1), (*b, before + 2)]
