"""A run that was stopped and resumed ends with the same bits as one that was not."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.training.train import Outcome
from tests.at_once import first
from tests.training.running import MIXERS, apart, at_row, begin, digests, mixer, newest, rows, same, saved, tiny

Whole = Callable[..., Outcome]
CUTS = [(1, signal.SIGINT), (4, signal.SIGTERM), (6, signal.SIGHUP), (8, signal.SIGINT)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(1, MIXERS))
@pytest.mark.parametrize(("step", "number"), CUTS, ids=str)
def test_a_signal_saves_and_the_run_resumes(
    whole: Whole, out: Path, kind: str, step: int, number: signal.Signals
) -> None:
    assert apart(out, mixer(kind), arm=at_row(step, number)) == 128 + number
    assert newest(out).step == step, "the step in hand is ended and saved"
    assert [row["step"] for row in rows(out) if "loss" in row] == list(range(1, step + 1))
    messages: list[str] = []
    outcome = tiny(out, mixer(kind), say=messages.append)
    assert outcome.asked is None
    assert outcome.step == 9
    assert any(f"after step {step} of 9" in line for line in messages)
    same(out, whole(mixer(kind)).run.folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MIXERS)
@pytest.mark.parametrize("step", first(1, [5, 2, 7]))
def test_a_kill_loses_less_than_one_interval(whole: Whole, out: Path, kind: str, step: int) -> None:
    assert apart(out, mixer(kind), arm=at_row(step, signal.SIGKILL)) == -signal.SIGKILL
    last = newest(out).step if saved(out) else 0
    assert last == {2: 0, 5: 4, 7: 6}[step]
    assert tiny(out, mixer(kind)).step == 9
    same(out, whole(mixer(kind)).run.folder)


@pytest.mark.slow
def test_a_run_cut_at_every_step(whole: Whole, out: Path) -> None:
    for step in range(1, 9):
        assert apart(out, mixer("she"), arm=at_row(step, signal.SIGTERM)) == 128 + signal.SIGTERM
    assert apart(out, mixer("she")) == 0
    same(out, whole(mixer("she")).run.folder)


@pytest.mark.slow
def test_a_signal_in_the_last_step_is_no_interruption(whole: Whole, out: Path) -> None:
    assert apart(out, arm=at_row(9, signal.SIGTERM)) == 0
    same(out, whole().run.folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", first(1, [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]), ids=str)
def test_stopped_from_outside_at_no_chosen_instant(whole: Whole, out: Path, number: signal.Signals) -> None:
    changes = ("training.batches=60", "training.save_every=5", "training.evaluate_every=0")
    process = begin(out, *changes)
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline and max(saved(out), default=0) < 10:
        time.sleep(0.005)
    os.kill(process.pid, number)
    process.join(50)
    assert process.exitcode == (-number if number == signal.SIGKILL else 128 + number)
    assert 10 <= newest(out).step < 60
    assert tiny(out, *changes).step == 60
    same(out, whole(*changes).run.folder)


@pytest.mark.slow
def test_more_batches_than_before_go_on_with_the_same_run(whole: Whole, out: Path) -> None:
    tiny(out, "training.batches=5", "training.save_every=2", "training.evaluate_every=0")
    assert tiny(out).step == 9
    assert newest(out).tensors.keys() == {"model", "optimizer"}
    expected = whole().run.folder
    assert [row for row in rows(out) if "loss" in row] == [row for row in rows(expected) if "loss" in row]
    assert digests(out) == digests(expected)


def test_fewer_batches_than_the_run_has_are_an_error_and_change_nothing(out: Path) -> None:
    tiny(out, "training.batches=4")
    before, steps_before, digests_before = rows(out), saved(out), digests(out)
    with pytest.raises(
        ValueError, match=r"4 batches already, more than training\.batches=2: set training\.batches to 4"
    ):
        tiny(out, "training.batches=2")
    assert (rows(out), saved(out), digests(out)) == (before, steps_before, digests_before)
    assert tiny(out, "training.batches=4").step == 4


@pytest.mark.slow
def test_a_run_that_is_done_stays_as_it_is(whole: Whole) -> None:
    before = whole()
    folder = before.run.folder
    kept, result = saved(folder), rows(folder)
    again = tiny(folder)
    assert (again.step, again.asked) == (9, None)
    assert (saved(folder), rows(folder)) == (kept, result)
    for name, weight in again.model.state_dict().items():
        assert weight.equal(before.model.state_dict()[name])
    assert not again.model.training
