"""Settings, tables, prices and progress, which all folders use."""

import io
import re

import pytest

from seqloom.core import progress as shown
from seqloom.core.config import Config, read, suggestion
from seqloom.core.cost import Cost, Span, gate, linear
from seqloom.core.device import chosen
from seqloom.core.table import table


class Inner(Config):
    size: int = 1


class Outer(Config):
    inner: Inner = Inner()
    rate: float = 0.5


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"inner": {"sise": 2}}, ["unknown setting 'inner.sise'", "did you mean 'size'?"]),
        ({"zzz": 2}, ["unknown setting 'zzz'", "there is inner, rate"]),
        ({"rate": "fast"}, ["rate:", "'fast'"]),
        ({"rate": float("nan")}, ["rate:"]),
        ({"inner": 3, "rate": "x"}, ["inner:", "rate:"]),
    ],
)
def test_a_wrong_setting_is_one_line(values: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        read(Outer, values)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read(Outer, {}).rate = 2.0


def test_near() -> None:
    assert suggestion("attnetion", ["attention", "she"]) == "did you mean 'attention'?"
    assert suggestion("qqqqqq", ["b", "a"]) == "there is a, b"


def test_a_table_lines_up() -> None:
    lines = table(("name", "count"), [("a", 1234567), ("bcd", None)]).splitlines()
    assert lines == ["name      count", "----  ---------", "a     1,234,567", "bcd           -"]


@pytest.mark.parametrize("T", [1, 2, 5, 9])
@pytest.mark.parametrize("context", [None, 1, 3, 9])
def test_a_span_looks_back_on_the_sum_over_positions(T: int, context: int | None) -> None:
    back = [min(position, context or position) for position in range(1, T + 1)]
    whole, last = Span(T), Span(T, "token")
    assert (whole.rows, whole.terms(context), whole.first) == (T, sum(back), 1)
    assert (last.rows, last.terms(context), last.first) == (1, back[-1], int(T == 1))
    assert Span(0).first == 0


def test_costs_add() -> None:
    both = linear(2, 3, 4) + Cost(add=1, state=5, path=("addition",))
    assert both == Cost(mul=24, add=17, params=12, state=5, path=("multiplication", "cumulation", "addition"))
    assert linear(2, 3, 4, bias=True) == Cost(mul=24, add=24, params=16, path=("multiplication", "cumulation"))
    assert both.total == 41
    assert 2 * both == Cost(mul=48, add=34, params=12, state=5, path=both.path)
    assert gate(3) == Cost(mul=3, add=3, div=3, exp=3, path=("multiplication",))


@pytest.mark.parametrize("name", ["meta", "no-such-device", "cuda:99"])
def test_a_device_that_cannot_compute(name: str) -> None:
    with pytest.raises(ValueError, match="use cpu or auto"):
        chosen(name)


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
