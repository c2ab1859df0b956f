"""Leases: one holder, judged by what others see of it, whatever its clock and theirs say."""

import os
import time
from pathlib import Path

import pytest

from seqloom.runs import lease
from seqloom.runs.lease import BEATS, FREE, PATIENCE, Lease, hold

BEAT = PATIENCE / BEATS


class Clock:
    """Stands in for the module `time`: it goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(lease, "time", made)
    return made


def look(other: Lease, clock: Clock, seconds: float, every: float = BEAT / 5) -> bool:
    """Whether the other takes the lease when it looks so often, for so long."""
    for _ in range(round(seconds / every)):
        clock.now += every
        if other.take():
            return True
    return False


def test_one_holder(tmp_path: Path, clock: Clock) -> None:
    first, second = Lease(tmp_path / "cell"), Lease(tmp_path / "cell")
    assert first.take()
    assert not second.take()
    first.give_up()
    assert second.take()
    assert not first.take()
    assert os.listdir(tmp_path) == ["cell-2"], "what is older is removed"
    second.remove()
    assert not os.listdir(tmp_path)


def test_names_of_a_folder_are_apart(tmp_path: Path) -> None:
    (tmp_path / "cell-1.tmp-7").write_text("")
    (tmp_path / "cell-x").write_text("")
    assert Lease(tmp_path / "cell").take()
    assert Lease(tmp_path / "other").take()


def test_a_holder_that_beats_keeps_it(tmp_path: Path, clock: Clock) -> None:
    first, second = Lease(tmp_path / "cell"), Lease(tmp_path / "cell")
    assert first.take()
    for _ in range(30):
        assert not look(second, clock, BEAT)
        assert first.renew()


def test_a_dead_holder_loses_it_after_some_looking(tmp_path: Path, clock: Clock) -> None:
    first, second, third = (Lease(tmp_path / "cell") for _ in range(3))
    assert first.take()
    assert not second.take(), "the first look"
    assert not look(second, clock, PATIENCE - BEAT)
    assert not third.take(), "another has to look for itself"
    assert look(second, clock, 2 * BEAT)
    assert not third.take()
    assert not first.renew(), "it learns that it has lost"
    first.give_up()
    assert os.listdir(tmp_path) == ["cell-2"]
    assert (tmp_path / "cell-2").read_bytes() != FREE


def test_time_in_which_nobody_looked_does_not_count(tmp_path: Path, clock: Clock) -> None:
    first, second = Lease(tmp_path / "cell"), Lease(tmp_path / "cell")
    assert first.take()
    assert not second.take()
    clock.now += 100 * PATIENCE  # both machines, or what they share, stood still
    assert not second.take()
    assert first.renew()
    assert not look(second, clock, PATIENCE - BEAT)


def test_of_two_that_see_a_dead_holder_one_takes_it(tmp_path: Path, clock: Clock) -> None:
    first, second, third = (Lease(tmp_path / "cell") for _ in range(3))
    assert first.take()
    both = [second, third]
    while not any(taken := [each.take() for each in both]):
        clock.now += BEAT / 2
    assert taken == [True, False]
    assert not third.take()
    assert second.renew()


def test_a_file_that_was_made_and_not_filled_is_of_a_dead_holder(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "cell-3").write_bytes(b"")
    mine = Lease(tmp_path / "cell")
    assert not mine.take()
    assert look(mine, clock, PATIENCE + BEAT)


def test_a_beat_that_cannot_be_written_is_tried_again(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Lease(tmp_path / "cell")
    assert mine.take()
    before = (tmp_path / "cell-1").read_bytes()

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as broken:
        broken.setattr(lease, "replace", full)
        clock.now += BEAT
        assert mine.renew()
        assert (tmp_path / "cell-1").read_bytes() == before
    clock.now += BEAT
    assert mine.renew()
    assert (tmp_path / "cell-1").read_bytes() != before


def test_who_waits_says_for_whom(tmp_path: Path, clock: Clock) -> None:
    holder = Lease(tmp_path / "timing")
    assert holder.take()
    said: list[str] = []

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if len(clock.sleeps) == 2:
            holder.give_up()
        clock.sleeps.append(seconds)

    clock.sleep = sleep  # type: ignore[method-assign]
    with hold(tmp_path / "timing", say=said.append):
        assert not Lease(tmp_path / "timing").take()
    assert len(said) == 1
    assert said[0].startswith(f"waiting for process {os.getpid()} on ")
    assert said[0].endswith(", which has timing")
    assert Lease(tmp_path / "timing").take(), "it is given up at the end of the block"


def test_the_block_beats(tmp_path: Path) -> None:
    with hold(tmp_path / "timing", patience=0.3):
        first = (tmp_path / "timing-1").read_bytes()
        while (tmp_path / "timing-1").read_bytes() == first:
            time.sleep(0.01)
