"""Progress: lines and bars of what takes long."""

import io

import pytest

from seqloom.core import progress as shown


class Clock:
    """Stands still between ticks."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shown, "time", clock)
    return clock


def test_plain_lines_are_rare_and_show_rate_and_time_left(clock: Clock) -> None:
    out = io.StringIO()
    with shown.progress("training", 100, "batches", start=20, stream=out) as advance:
        for _ in range(80):
            clock.now += 0.25
            advance(note="loss 1.5")
    lines = out.getvalue().splitlines()
    assert len(lines) == 4, "one line every five seconds, and none for each batch"
    assert lines[0] == "training: 40 of 100 batches · 4.0/s · 0:15 left · loss 1.5"
    assert lines[-1].startswith("training: 100 of 100 batches")


def test_quick_work_prints_nothing(clock: Clock) -> None:
    out = io.StringIO()
    with shown.progress("tokens", 3, stream=out) as advance:
        for _ in range(3):
            clock.now += 0.01
            advance()
    assert out.getvalue() == ""


def test_a_terminal_gets_a_bar() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with shown.progress("training", 4, "batches", stream=out) as advance:
        for _ in range(4):
            advance(note="loss 2.0")
    assert "training" in out.getvalue()
    assert "4/4" in out.getvalue()
