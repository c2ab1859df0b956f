"""Batches that are made ahead, in a thread: the same ones, with the same errors, and no harm from a signal."""

import os
import signal
import threading
from pathlib import Path

import pytest

from seqloom.runs.metrics import Metrics
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.prefetch import Prefetch
from tests.training.recorded import on_a_cpu
from tests.training.running import apart, newest, rows, same, tiny


def names(made: list[tuple[int, str]]) -> dict[int, str]:
    return dict(made)


def test_every_batch_but_the_first_is_made_in_the_thread() -> None:
    made: list[tuple[int, str]] = []

    def make(number: int) -> int:
        made.append((number, threading.current_thread().name))
        return number * number

    batches = Prefetch(make, 4)
    assert [batches.take(number) for number in range(4)] == [0, 1, 4, 9]
    assert [number for number, _ in made] == [0, 1, 2, 3], "each once, and none after the end"
    assert names(made)[0] == threading.main_thread().name
    assert {names(made)[number].split("_")[0] for number in (1, 2, 3)} == {"batches"}


def test_another_step_than_the_next_and_dropped_batches_are_made_again() -> None:
    scale = 1
    batches = Prefetch(lambda number: number * scale, 100)
    assert [batches.take(number) for number in (0, 1, 50, 51, 7)] == [0, 1, 50, 51, 7]
    batches.drop()
    scale = 10
    assert batches.take(8) == 80
    batches.drop()
    batches.drop()


def test_an_error_is_raised_at_the_step_of_its_batch() -> None:
    def make(number: int) -> int:
        if number == 2:
            raise ValueError("the text ends here")
        return number

    batches = Prefetch(make, 9)
    assert [batches.take(0), batches.take(1)] == [0, 1]
    with pytest.raises(ValueError, match="the text ends here"):
        batches.take(2)
    assert batches.take(3) == 3
    batches.take(1)
    batches.drop()  # an error of what is not wanted is none


@pytest.mark.slow
def test_an_error_of_a_batch_ends_a_run_as_it_does_without_the_thread(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run goes on from its last checkpoint."""
    real = NextToken.batch
    on_a_cpu(monkeypatch)
    tiny(out / "whole", "training.graph=none")

    def batch(self: NextToken, seed: int, step: int, model: object) -> object:
        if step == 5:
            raise ValueError("no such batch")
        return real(self, seed, step, model)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(NextToken, "batch", batch)
        with pytest.raises(ValueError, match=r"^no such batch$"):
            tiny(out / "cut")
    assert newest(out / "cut").step == 4
    assert [row["step"] for row in rows(out / "cut") if "loss" in row] == [1, 2, 3, 4]
    tiny(out / "cut")
    same(out / "cut", out / "whole")


class _Interrupted:
    """A process whose steps are captured on a CPU, and which gets Ctrl-C while the thread makes a batch."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self) -> None:
        on_a_cpu(pytest.MonkeyPatch())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        real = NextToken.batch
        append = Metrics.append
        seen = threading.Event()

        def batch(objective: NextToken, seed: int, step: int, model: object) -> object:
            if step == self.step and threading.current_thread() is not threading.main_thread():
                os.kill(os.getpid(), signal.SIGINT)
                seen.set()
            return real(objective, seed, step, model)  # type: ignore[arg-type]

        def watched(metrics: Metrics, row: dict[str, object]) -> None:
            append(metrics, row)
            if row["step"] == self.step - 1:
                assert seen.wait(30)

        NextToken.batch = batch  # type: ignore[method-assign, assignment]
        Metrics.append = watched  # type: ignore[method-assign, assignment]


@pytest.mark.slow
def test_ctrl_c_while_a_batch_is_made_saves_the_step_that_ran(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_cpu(monkeypatch)
    assert apart(out / "cut", "training.save_every=9", arm=_Interrupted(4)) == 128 + signal.SIGINT
    reached = newest(out / "cut").step
    assert 3 <= reached <= 5
    assert [row["step"] for row in rows(out / "cut") if "loss" in row] == list(range(1, reached + 1))
    tiny(out / "whole", "training.save_every=9")
    tiny(out / "cut", "training.save_every=9")
    same(out / "cut", out / "whole")
