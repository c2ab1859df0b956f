"""Only regular files of bounded size are read; other paths are neither opened nor waited for."""

import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from seqloom.core import files


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "fifo": (os.mkfifo, "is a FIFO, not a regular file"),
    "socket": (_socket, "is a socket, not a regular file"),
    "folder": (Path.mkdir, "is a folder, not a regular file"),
    "zero": (lambda path: path.symlink_to("/dev/zero"), "is a device, not a regular file"),
    "null": (lambda path: path.symlink_to("/dev/null"), "is a device, not a regular file"),
    "fifo-behind-a-link": (
        lambda path: (os.mkfifo(f"{path}-target"), path.symlink_to(f"{path}-target")),
        "is a FIFO, not a regular file",
    ),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("mode", ["rb", "ab"])
def test_what_is_no_regular_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, mode) -> None:
    make, why = ODD[odd]
    make(tmp_path / "x")
    monkeypatch.setattr(os, "open", lambda *values: pytest.fail("it was opened"))
    with pytest.raises(ValueError, match=why) as raised:
        files.open_regular(tmp_path / "x", mode)
    assert str(tmp_path / "x") in str(raised.value)


def test_a_file_that_is_replaced_after_the_look_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good").write_bytes(b"x")
    good = os.stat(tmp_path / "good")
    os.mkfifo(tmp_path / "x")
    monkeypatch.setattr(os, "stat", lambda *values, **named: good)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="is a FIFO"):
        files.open_regular(tmp_path / "x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_links_are_followed_by_default(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("x")
    (tmp_path / "x").symlink_to("target")
    assert files.read_text(tmp_path / "x") == "x"
    with pytest.raises(ValueError, match="is a link, not a regular file"):
        files.open_regular(tmp_path / "x", follow=False)


def test_appending_makes_and_keeps(tmp_path: Path) -> None:
    for text in (b"one", b"two"):
        with files.open_regular(tmp_path / "x", "ab") as file:
            file.write(text)
    assert files.read_bytes(tmp_path / "x") == b"onetwo"


@pytest.mark.parametrize("read", [files.read_bytes, files.read_text, files.read_json])
def test_the_limit_holds(tmp_path: Path, read: Callable[..., object]) -> None:
    path = tmp_path / "x"
    path.write_text("[1]")
    assert read(path, 3) is not None
    with pytest.raises(ValueError, match="is too large: it has more than 2 bytes"):
        read(path, 2)
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole of a terabyte
    with pytest.raises(ValueError, match="is too large"):
        read(path, 1000)


NO_JSON = {
    "empty": (b"", "Expecting value, line 1, column 1"),
    "half": (b"{", "line 1, column 2"),
    "binary": (b"\xff\xfe{", "not UTF-8 text|line 1"),
    "lists 200,000 deep": (b"[" * 200_000 + b"]" * 200_000, "nested more than 100 deep"),
    "objects 200,000 deep": (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "nested more than 100 deep"),
    "lists 101 deep": (b"[" * 101 + b"]" * 101, "nested more than 100 deep"),
    "NaN": (b"[NaN]", "NaN is no JSON number"),
    "-Infinity": (b"[-Infinity]", "-Infinity is no JSON number"),
    "a number of 5,000 digits": (b"[" + b"9" * 5000 + b"]", "limit"),
}


@pytest.mark.parametrize("name", NO_JSON)
def test_what_is_no_json(tmp_path: Path, name: str) -> None:
    data, why = NO_JSON[name]
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ValueError, match=why) as raised:
        files.read_json(tmp_path / "x")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(f"{tmp_path / 'x'} is not readable JSON (")


def test_json_as_deep_as_allowed() -> None:
    assert str(files.parse_json("[" * 100 + "]" * 100)).count("[") == 100


def test_not_utf8_and_not_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc\xff")
    with pytest.raises(ValueError, match=r"is not UTF-8 text \(byte 3\)"):
        files.read_text(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        files.read_text(tmp_path / "none")
    with pytest.raises(ValueError, match="null character"):
        files.read_text("a\0b")


def test_reading_takes_the_memory_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * 3000)
    tracemalloc.start()
    try:
        assert len(files.read_bytes(tmp_path / "small", 4 << 30)) == 3000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_file_of_unknown_size_is_read_up_to_the_limit() -> None:
    path = Path("/proc/self/status")  # a regular file of 0 bytes, as the system says
    assert files.read_bytes(path).startswith(b"Name:")
    with pytest.raises(ValueError, match="has more than 100 bytes"):
        files.read_bytes(path, 100)


@pytest.mark.parametrize("size", [0, 1, 1 << 16, (1 << 16) + 1, 300_000])
def test_all_bytes_are_read_whatever_the_size_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    (tmp_path / "grows").write_bytes(data)
    real = os.fstat

    def smaller(descriptor: int) -> object:
        return SimpleNamespace(st_mode=real(descriptor).st_mode, st_size=0)

    monkeypatch.setattr(os, "fstat", smaller)
    assert files.read_bytes(tmp_path / "grows", size) == data
    if size:
        with pytest.raises(ValueError, match="is too large"):
            files.read_bytes(tmp_path / "grows", size - 1)
