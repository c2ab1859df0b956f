"""The share of CPU time that other processes used."""

from pathlib import Path
from typing import Any

import pytest

from seqloom.analysis import others as module
from seqloom.analysis.others import Cores, cores, is_loaded, share, warning, watch


def after(busy: tuple[float, float], own: float, ours: set[int], seconds: float = 10.0) -> Cores:
    return Cores({0: 5 + busy[0], 1: 7 + busy[1]}, {0: 20 + seconds, 1: 20 + seconds}, frozenset(ours), 3 + own)


BEFORE = Cores({0: 5.0, 1: 7.0}, {0: 20.0, 1: 20.0}, frozenset({0, 1}), 3.0)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (after((10, 10), 20, {0, 1}), 0.0),
        (after((10, 10), 10, {0, 1}), 0.5),
        (after((10, 10), 10, {0}), 0.0),
        (after((10, 0), 2, {0}), 0.8),
        (after((1, 1), 3, {0, 1}), 0.0),
        (after((0, 0), 0, {0, 1}, 0.0), None),
        (None, None),
    ],
    ids=["all ours", "half theirs", "theirs is elsewhere", "most theirs", "clocks differ", "no time", "unknown"],
)
def test_share(now: Cores | None, expected: float | None) -> None:
    assert share(BEFORE, now) == expected


def test_loaded_from_a_tenth_on() -> None:
    assert [is_loaded(each) for each in (None, 0.0, 0.09, 0.1, 1.0)] == [None, False, False, True, True]
    assert [bool(warning(each)) for each in (None, 0.0, 0.09, 0.1, 1.0)] == [False, False, False, True, True]
    assert "40%" in warning(0.4)


def test_watch_takes_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([BEFORE, after((10, 10), 10, {0, 1})])
    monkeypatch.setattr(module, "SAMPLE", 0.0)
    monkeypatch.setattr(module, "cores", lambda: next(seen))
    assert watch()() == 0.5


def test_reads_the_statistics_of_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Any = Path.read_text
    text = "cpu  9 9 9 9\ncpu0 100 20 30 400 50 6 7 8 0 0\ncpu1 0 0 0 500 0 0 0 0 0 0\nintr 3\n"
    monkeypatch.setattr(Path, "read_text", lambda self: text if str(self) == "/proc/stat" else real(self))
    result = cores()
    if result is None:
        pytest.skip("no /proc here")
    assert result.busy == pytest.approx({0: 1.71, 1: 0.0})
    assert result.whole == pytest.approx({0: 6.21, 1: 5.0})
    assert result.ours
