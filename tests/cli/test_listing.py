"""The table of backends: every op and backend, what is not available and why, what is chosen."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seqloom.cli.listing import backends, crossovers
from seqloom.ops import backends as chooser
from seqloom.ops import native
from seqloom.ops.lag_sum import choice
from seqloom.ops.wkv_average import native as wkv_native
from tests.cli.conftest import Answer


def rows(text: str) -> dict[tuple[str, str], str]:
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()
    return {tuple(line.split()[:2]): line for line in lines[2:]}


def test_every_backend_of_every_op_has_its_row() -> None:
    found = rows(backends())
    assert list(found) == [(op, name) for op, names in sorted(chooser.known().items()) for name in names]
    for op in chooser.known().keys() - {"projection"}:  # whose small ones are torch's own
        assert any(" x " in line for (of, _), line in found.items() if of == op), op


def test_what_is_not_available_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    native.forget()
    assert not wkv_native.available()
    found = rows(backends())
    assert "SEQLOOM_NATIVE=0" in found["wkv_average", "native"]
    assert " x " not in found["wkv_average", "native"]
    assert "8 x 32" in found["wkv_average", "sequential"]
    monkeypatch.undo()
    native.forget()


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a table that a user put in force."""
    path = tmp_path / "mine.json"
    monkeypatch.setenv("SEQLOOM_LAG_SUM_TABLE", str(path))
    choice.forget()
    yield path
    monkeypatch.undo()
    choice.forget()


def test_the_table_of_the_lag_sum_in_force(mine: Path) -> None:
    sizes = itertools.product((16, 64), (16,), (8,), (1, 4, 16))
    points = [
        {"taps": "vectors", "training": True, **dict(zip("TLDB", each, strict=True)), "ms": {"fft": 2, "direct": ms}}
        for each, ms in zip(sizes, (1, 1, 1, 1, 3, 1), strict=True)
    ]
    mine.write_text(json.dumps({"machine": "an abacus", "commit": "c0ffee", "date": "2026-01-02", "points": points}))
    first, *lines = crossovers().splitlines()
    assert first == f"lag_sum by its table, {mine} (an abacus, c0ffee, 2026-01-02):"
    found = [" ".join(line.split()) for line in lines if line.startswith("vectors")]
    assert found[:2] == [
        "vectors training to 32 direct",
        "vectors training 33 on rows to 2: direct, 3 to 8: fft, 9 on: direct",
    ]
    assert {tuple(line.split()[:2]) for line in lines[2:]} == set(
        itertools.product(choice.KINDS, ("training", "reading"))
    )


def test_ranges_inside_of_ranges_are_in_brackets(mine: Path) -> None:
    sizes = {(16, 4, 2): "fft", (16, 16, 2): "direct", (16, 16, 8): "fft"}
    points = [
        {**dict(zip("TLB", each, strict=True)), "D": 8, "taps": "number", "training": True, "ms": {"x": 9, name: 1}}
        for each, name in sizes.items()
    ]
    mine.write_text(json.dumps({"points": points}))
    (line,) = [line for line in crossovers().splitlines() if line.startswith("number    training")]
    assert line.split(maxsplit=3)[2:] == ["any", "lags to 8: fft, 9 on: (rows to 4: direct, 5 on: fft)"]


def test_the_command_prints_it(seqloom: Callable[..., Answer]) -> None:
    answer = seqloom("list", "--backends")
    assert answer.code == 0
    assert "lag_sum by its table, the package's own (" in answer.out


def test_a_table_that_is_not_there_is_an_error_in_a_line(mine: Path, seqloom: Callable[..., Answer]) -> None:
    answer = seqloom("list", "--backends")
    assert (answer.code, answer.out) == (2, "")
    assert f"{mine} is no table of lag sums (No such file or directory)" in answer.err
    assert len(answer.err.splitlines()) == 1
