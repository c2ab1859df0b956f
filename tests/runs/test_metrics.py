"""Rows are valid JSON, survive a torn end, are cut where a checkpoint was saved; no damage to them goes unnoticed."""

import json
import os
import random
import resource
from pathlib import Path
from zlib import crc32

import pytest

from seqloom.runs import rows
from seqloom.runs.metrics import Metrics, read
from seqloom.runs.rows import START, Mark, decode, encode, scan

NAN, INF = float("nan"), float("inf")


def _fill(path: Path, steps: range) -> Mark:
    with Metrics(path) as metrics:
        for step in steps:
            metrics.append({"step": step, "loss": step / 3})
        return metrics.mark


def _steps(path: Path) -> list[int]:
    return [row["step"] for row in read(path)]


def test_rows_go_round_and_are_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with Metrics(path) as metrics:
        metrics.append({"step": 1, "loss": 0.1 + 0.2, "word": "ü\n", "deep": {"a": [1, 2]}})
        assert read(path) == [{"step": 1, "loss": 0.1 + 0.2, "word": "ü\n", "deep": {"a": [1, 2]}}]
    _fill(path, range(2, 4))
    assert _steps(path) == [1, 2, 3]


def test_the_checksum_is_the_last_field_and_of_the_others(tmp_path: Path) -> None:
    _fill(tmp_path / "m", range(1, 2))
    (line,) = (tmp_path / "m").read_text().splitlines()
    row = json.loads(line)
    assert list(row) == ["step", "loss", "crc32"]
    assert row.pop("crc32") == crc32(json.dumps(row).encode())


def test_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    with Metrics(path) as metrics:
        metrics.append({"step": 1, "loss": NAN, "deep": {"a": [1.0, -INF]}, "ok": 2.0})
    json.loads(path.read_text(), parse_constant=pytest.fail)
    assert read(path) == [
        {"step": 1, "loss": None, "deep": {"a": [1.0, None]}, "ok": 2.0, "nonfinite": ["loss", "deep.a.1"]}
    ]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"loss": 1.0}, "whole number 'step'"),
        ({"step": 1.0}, "whole number 'step'"),
        ({"step": True}, "whole number 'step'"),
        ({"step": 1, "nonfinite": 2}, "nonfinite"),
        ({"step": 1, "crc32": 2}, "crc32"),
        ({"step": 1, "a": {"b": object()}}, r"a\.b is a object"),
        ({"step": 1, "a": {2: 3}}, "key 2"),
    ],
)
def test_refused_rows_leave_nothing(tmp_path: Path, row: dict, why: str) -> None:
    with Metrics(tmp_path / "m") as metrics:
        with pytest.raises(ValueError, match=why):
            metrics.append(row)
        assert metrics.mark == START
    assert read(tmp_path / "m") == []


def test_cut_at_a_mark_and_gone_on(tmp_path: Path) -> None:
    path = tmp_path / "m"
    first = _fill(path, range(7))
    before = path.read_bytes()
    _fill(path, range(7, 10))
    with Metrics(path, mark=first) as metrics:
        assert path.read_bytes() == before
        assert metrics.mark == first
        metrics.append({"step": 7})
        assert _steps(path) == list(range(8))
        later = metrics.mark
    with Metrics(path, mark=later) as metrics:
        assert metrics.mark == later
    assert later.rows == 8
    with Metrics(path, mark=START):
        pass
    assert path.read_bytes() == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("lost", [1, 2, 10, 40])
def test_torn_at_any_byte(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "m"
    message: list[str] = []
    mark = _fill(path, range(100, 102))
    _fill(path, range(102, 103))
    path.write_bytes(path.read_bytes()[:-lost])
    assert _steps(path) == [100, 101]
    with Metrics(path, message.append, mark=mark) as metrics:
        assert len(message) == 1
        assert "torn" in message[0]
        assert str(path) in message[0]
        metrics.append({"step": 102})
    assert _steps(path) == [100, 101, 102]


@pytest.mark.parametrize("tail", [b'{"step"', b'{"step": 3}', b"\0" * 40, b"\xff"])
def test_torn_tails(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "m"
    _fill(path, range(2))
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert _steps(path) == [0, 1]
    with Metrics(path, lambda line: None):
        pass
    assert path.read_bytes() == whole


def _sealed(text: bytes) -> bytes:
    """The line of a row that `encode` would not write, under its checksum."""
    return text[:-1] + b', "crc32": %d}\n' % crc32(text)


DAMAGES = {
    "empty": lambda line: b"\n",
    "brace": lambda line: b"{\n",
    "list": lambda line: b"[1]\n",
    "zeros": lambda line: b"\0" * len(line),
    "half": lambda line: line[: len(line) // 2] + b"\n",
    "no checksum": lambda line: b'{"step": 1, "loss": 0.3}\n',
    "another number": lambda line: line.replace(b'"loss": 0.', b'"loss": 1.'),
    "a name": lambda line: line.replace(b"loss", b"lose"),
    "another checksum": lambda line: line.replace(b'"crc32": ', b'"crc32": 1'),
    "a step that is no number": lambda line: encode({"step": "1"}),
    "a step below 0": lambda line: encode({"step": -1}),
    "a checksum over no row": lambda line: _sealed(b"[1}"),
    "a step beyond any": lambda line: _sealed(b'{"step": ' + b"9" * 5000 + b"}"),
    "nested 200,000 deep": lambda line: _sealed(b'{"step": 1, "a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_row_is_named(tmp_path: Path, how: str) -> None:
    path = tmp_path / "m"
    mark = _fill(path, range(3))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = DAMAGES[how](lines[1])
    path.write_bytes(b"".join(lines))
    if how != "zeros":  # which takes the line's end too
        for look in (read, Metrics):
            with pytest.raises(ValueError, match=r"1 damaged \(line 2\)") as raised:
                look(path)
            assert "\n" not in str(raised.value)
        assert [row["step"] for row in scan(path).rows] == [0, 2]
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"of the 3 rows that the run's checkpoint counts, 1 damaged \(line 2\)"):
        Metrics(path, mark=mark)
    assert path.read_bytes() == before, "nothing is lost by the look"


def test_damage_after_the_mark_is_dropped(tmp_path: Path) -> None:
    mark = _fill(tmp_path / "m", range(3))
    with (tmp_path / "m").open("ab") as file:
        file.write(b'{"step": 3, "loss": 1}\n')
    with Metrics(tmp_path / "m", mark=mark) as metrics:
        assert metrics.mark == mark
    assert _steps(tmp_path / "m") == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: lines[:-1], "of the 5 rows that the run's checkpoint counts, 1 missing"),
        (lambda lines: [], "5 missing"),
        (lambda lines: lines[:2] + lines[3:], "1 missing"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "deleted, added or exchanged"),
        (lambda lines: [*lines[:4], encode({"step": 4, "loss": 0.5})], "deleted, added or exchanged"),
        (lambda lines: [*lines[1:], encode({"step": 5})], "deleted, added or exchanged"),
    ],
)
def test_whole_rows_that_are_not_the_marked_ones(tmp_path: Path, change, why: str) -> None:
    path = tmp_path / "m"
    mark = _fill(path, range(5))
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    assert not scan(path, mark).complete
    with pytest.raises(ValueError, match=why) as raised:
        Metrics(path, mark=mark)
    assert "train in another --out" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file(tmp_path: Path) -> None:
    mark = _fill(tmp_path / "m", range(2))
    (tmp_path / "m").unlink()
    with pytest.raises(ValueError, match="is missing: restore it"):
        Metrics(tmp_path / "m", mark=mark)
    with Metrics(tmp_path / "m", mark=START) as metrics:
        assert metrics.mark == START


@pytest.mark.slow
def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m"
    mark = _fill(path, range(1, 6))
    whole = path.read_bytes()
    for bit in random.Random(0).sample(range(len(whole) * 8), 400):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        result = scan(path, mark)
        assert not result.complete, bit
        assert result.damaged or result.torn, bit
        assert all(encode(row) in whole for row in result.rows), "only rows that were written are read"


@pytest.mark.parametrize(
    "value", [None, 3, {}, {"rows": "3", "sha256": ""}, {"rows": -1, "sha256": ""}, {"rows": True}]
)
def test_what_is_no_mark(value: object) -> None:
    with pytest.raises(ValueError, match="number and digest"):
        Mark.of(value)
    assert Mark.of(START.row()) == START


def test_a_hostile_file_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"is too large: 1,099,511,627,776 bytes"):
        read(tmp_path / "hole")
    (tmp_path / "many").write_bytes(b"\n" * 20_000)
    with pytest.raises(ValueError, match="more than 10,000 of its lines are damaged"):
        read(tmp_path / "many")
    monkeypatch.setattr(rows, "LONGEST", 100)
    (tmp_path / "long").write_bytes(b"x" * 101 + b"\n")
    with pytest.raises(ValueError, match="a line has more than 100 bytes"):
        read(tmp_path / "long")


@pytest.mark.parametrize("target", ["elsewhere", "none", "/dev/zero"])
def test_no_rows_are_read_or_written_through_a_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "elsewhere").write_bytes(encode({"step": 1}))
    (tmp_path / "m").symlink_to(target)
    for look in (read, Metrics):
        with pytest.raises(ValueError, match="is a link, not a regular file"):
            look(tmp_path / "m")


def test_a_row_without_anything_else() -> None:
    assert decode(encode({"step": 0})[:-1]) == {"step": 0}


def test_a_full_disk_leaves_no_half_row(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with Metrics(path) as metrics:
        metrics.append({"step": 1})
        length = os.path.getsize(path)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                metrics.append({"step": 2, "word": "x" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert os.path.getsize(path) == length
        metrics.append({"step": 2})
        mark = metrics.mark
    assert _steps(path) == [1, 2]
    assert scan(path, mark).complete


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
