"""A training that ends where the held-out loss does not fall, and one whose length is changed."""

import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from seqloom.core.progress import show_nothing
from seqloom.training.group import Group
from seqloom.training.objectives.next_token import ScoredByToken
from seqloom.training.settings import resolve
from seqloom.training.signals import Stop
from seqloom.training.train import turns
from tests.training.running import SMALL, digests, newest, rows, tiny

PLAIN = ("training.evaluate_every=0", "training.schedule={kind: wsd, warmup: 2, decay: 0.4}")


def give_losses(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """The held-out losses of the evaluations to come."""
    coming = iter(values)
    monkeypatch.setattr(ScoredByToken, "score", lambda *_: {"held_out": next(coming), "bits_per_byte": 1.0})


def train_until(step: int, folder: Path, *changes: str) -> None:
    """A run that is asked to stop after a step."""
    stop = Stop()
    config = resolve("tiny", [*SMALL, *changes])
    run = turns(config, folder, False, lambda line: None, show_nothing, Group(), (), nullcontext(stop))
    for number, _ in enumerate(run, 1):
        if number == step:
            stop.ask(signal.SIGTERM)
    assert newest(folder).step == step


@pytest.mark.slow
def test_a_training_ends_where_the_loss_does_not_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    settings = ("training.batches=40", "training.evaluate_every=2", "training.save_every=7")
    give_losses(monkeypatch, 3.0, 2.0, 2.5, 1.0, 1.0, 1.5)
    assert tiny(tmp_path, *settings, "training.patience=2", say=said.append).step == 12
    assert newest(tmp_path).step == 12
    assert newest(tmp_path).meta["best"] == {"step": 8, "loss": 1.0}
    end = "ended by training.patience after step 12: the lowest held-out loss is that of step 8, 1.000"
    assert said[-1] == end
    assert tiny(tmp_path, *settings, "training.patience=2", say=said.append).step == 12  # the same command
    give_losses(monkeypatch, 0.5, 0.6, 0.7, 0.8)
    assert tiny(tmp_path, *settings, "training.patience=3").step == 20  # the loss of step 14 is the lowest


def test_patience_needs_evaluations() -> None:
    with pytest.raises(ValueError, match=r"patience counts held-out evaluations: set training\.evaluate_every as well"):
        resolve("tiny", [*SMALL, "training.evaluate_every=0", "training.patience=2"])


@pytest.mark.slow
def test_a_run_is_made_longer_until_its_decay_begins(tmp_path: Path) -> None:
    tiny(tmp_path / "whole", *PLAIN, "training.batches=15")
    train_until(5, tmp_path / "a", *PLAIN, "training.batches=10")
    for _ in range(2):
        tiny(tmp_path / "a", *PLAIN, "training.batches=15")
        assert digests(tmp_path / "a") == digests(tmp_path / "whole")
        assert rows(tmp_path / "a") == rows(tmp_path / "whole")


@pytest.mark.slow
def test_a_run_in_its_decay_is_not_made_longer(tmp_path: Path) -> None:
    train_until(8, tmp_path, *PLAIN, "training.batches=10")
    message = "has done 8 steps, and step 8 had another learning rate in a run of 10 batches than in one of 15: set "
    with pytest.raises(ValueError, match=message):
        tiny(tmp_path, *PLAIN, "training.batches=15")
    with pytest.raises(ValueError, match="schedule"):
        tiny(tmp_path, *PLAIN[:1], "training.schedule={kind: cosine}", "training.batches=15")


@pytest.mark.slow
def test_a_cosine_is_not_made_longer(tmp_path: Path) -> None:
    cosine = ("training.evaluate_every=0", "training.schedule={kind: cosine}")
    train_until(3, tmp_path, *cosine, "training.batches=10")
    with pytest.raises(ValueError, match="step 2 had another learning rate in a run of 10 batches than in one of 15"):
        tiny(tmp_path, *cosine, "training.batches=15")
