"""Rows are valid JSON, survive a torn end, and are cut at the step of a resumed run."""

import json
import os
import resource
from pathlib import Path

import pytest

from seqloom.runs.metrics import Metrics, read

NAN, INF = float("nan"), float("inf")


def _fill(path: Path, steps: range) -> None:
    with Metrics(path) as metrics:
        for step in steps:
            metrics.append({"step": step, "loss": step / 3})


def test_rows_go_round_and_are_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with Metrics(path) as metrics:
        metrics.append({"step": 1, "loss": 0.1 + 0.2, "word": "ü\n", "deep": {"a": [1, 2]}})
        assert read(path) == [{"step": 1, "loss": 0.1 + 0.2, "word": "ü\n", "deep": {"a": [1, 2]}}]
    _fill(path, range(2, 4))
    assert [row["step"] for row in read(path)] == [1, 2, 3]


def test_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with Metrics(path) as metrics:
        metrics.append({"step": 1, "loss": NAN, "deep": {"a": [1.0, -INF]}, "ok": 2.0})
    strict = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert strict == {
        **{"step": 1, "loss": None, "deep": {"a": [1.0, None]}, "ok": 2.0},
        "nonfinite": ["loss", "deep.a.1"],
    }


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"loss": 1.0}, "whole number 'step'"),
        ({"step": 1.0}, "whole number 'step'"),
        ({"step": True}, "whole number 'step'"),
        ({"step": 1, "nonfinite": 2}, "nonfinite"),
        ({"step": 1, "a": {"b": object()}}, r"a\.b is a object"),
        ({"step": 1, "a": {2: 3}}, "key 2"),
    ],
)
def test_refused_rows_leave_nothing(tmp_path: Path, row: dict, why: str) -> None:
    with Metrics(tmp_path / "m") as metrics, pytest.raises(ValueError, match=why):
        metrics.append(row)
    assert read(tmp_path / "m") == []


def test_truncate_after_and_go_on(tmp_path: Path) -> None:
    path = tmp_path / "m"
    _fill(path, range(10))
    before = path.read_bytes().splitlines(keepends=True)
    with Metrics(path) as metrics:
        assert metrics.truncate_after(20) == 0
        assert metrics.truncate_after(6) == 3
        assert path.read_bytes() == b"".join(before[:7])
        metrics.append({"step": 7})
        assert [row["step"] for row in read(path)] == list(range(8))
        assert metrics.truncate_after(-1) == 8
    assert path.read_bytes() == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("lost", [1, 2, 10, 20])
def test_torn_at_any_place(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "m"
    said: list[str] = []
    _fill(path, range(100, 103))
    path.write_bytes(path.read_bytes()[:-lost])
    assert [row["step"] for row in read(path)] == [100, 101]
    with Metrics(path, said.append) as metrics:
        assert len(said) == 1
        assert "torn" in said[0]
        assert str(path) in said[0]
        metrics.append({"step": 102})
    assert [row["step"] for row in read(path)] == [100, 101, 102]


@pytest.mark.parametrize("tail", [b'{"step"', b'{"step": 3}', b"\0" * 40, b"\0" * 40 + b"\n", b"\xff\n", b"3\n"])
def test_torn_tails(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + tail)
    assert [row["step"] for row in read(path)] == [1, 2]
    with Metrics(path, lambda line: None):
        pass
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n'


@pytest.mark.parametrize("middle", [b"", b"{", b"[1]", b"\0\0"])
def test_a_broken_middle_line_is_named(tmp_path: Path, middle: bytes) -> None:
    path = tmp_path / "m"
    text = b'{"step": 1}\n' + middle + b'\n{"step": 2}\n'
    path.write_bytes(text)
    for look in (read, Metrics):
        with pytest.raises(ValueError, match="line 2: not a row") as raised:
            look(path)
        assert "\n" not in str(raised.value)
    path.write_bytes(b'{"step": 1}\n{\n{"st')
    with pytest.raises(ValueError, match="line 2"):
        read(path)


def test_a_full_disk_leaves_no_half_row(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with Metrics(path) as metrics:
        metrics.append({"step": 1})
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                metrics.append({"step": 2, "word": "x" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert os.path.getsize(path) == 12
        metrics.append({"step": 2})
    assert [row["step"] for row in read(path)] == [1, 2]


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
