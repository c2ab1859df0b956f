"""The live table on a terminal, plain lines elsewhere."""

import io
import re

import pytest

from seqloom.studies.live_table import LiveTable


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")


def test_one_table_of_all_runs_on_a_terminal() -> None:
    out = Terminal()
    with LiveTable({"she": 10, "me": 10}, out) as board:
        with board.show("she", "training", 10, "batches", start=4) as advance:
            for loss in (5.5, 5.25):
                advance(note=f"loss {loss}")
        board.say("a line above")
        board.mark_done("she", "4.5000")
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).split("run ")[-1]
    she, me = (line.split() for line in last.splitlines()[1:3])
    assert she[:2] == ["she", "done"]
    assert she[-2:] == ["5.25", "4.5000"]
    assert me == ["me", "waits"]
    assert "a line above" in out.getvalue()


def test_how_far_a_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 102.0])
    monkeypatch.setattr("seqloom.studies.live_table.time.monotonic", lambda: next(now, 102.0))
    board = LiveTable({"she": 10}, Terminal())
    from seqloom.studies import live_table as module

    line = board._lines["she"]
    module._advancing(line, 10, 4)(2, "loss 5.1")
    assert (line.state, line.rate, line.left, line.loss) == ("6 of 10", "1.0/s", "0:04", "5.1")


def test_plain_lines_elsewhere() -> None:
    out = io.StringIO()
    with LiveTable({"she": 10, "me": 10}, out) as board:
        with board.show("she", "training", 10, "batches") as advance:
            advance(10)
        board.mark_done("she", "loss 4.5")
    assert out.getvalue().splitlines() == ["run 1 of 2, she: loss 4.5"]


def test_of_more_runs_than_the_terminal_has_lines_those_around_the_one_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "12")
    out = Terminal()
    with LiveTable({f"mixer-{number}": 10 for number in range(34)}, out) as board:
        for number in range(20):
            board.mark_done(f"mixer-{number}", "4.5")
        with board.show("mixer-20", "training", 10, "batches") as advance:
            advance(5, "loss 5.5")
            assert board._live is not None
            board._live.refresh()
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).split("run ")[-1].splitlines()
    assert [line.split()[0] for line in last[2:9]] == [f"mixer-{number}" for number in range(17, 24)]
    assert last[1].split() == ["17", "more", "above"]
    assert last[9].split() == ["10", "more", "below"]


def test_the_first_and_last_rows_of_a_long_table() -> None:
    from seqloom.studies.live_table import _Line, _window

    lines = [_Line(str(number)) for number in range(10)]
    assert _window(lines, 4) == (0, lines[:4], 6)
    for line in lines:
        line.state = "done"
    assert _window(lines, 4) == (6, lines[6:], 0)
    assert _window(lines, 10) == (0, lines, 0)
    assert _window(lines, 0) == (9, lines[9:], 0)
