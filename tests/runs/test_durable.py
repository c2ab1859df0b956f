"""A file is replaced as a whole: what a link leads to stays, a FIFO does not block, a full disk leaves the old file."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seqloom.runs import durable
from seqloom.runs.layout import make_inside, open_run


def _in_parts(path: Path, data: bytes) -> None:
    with durable.replacing(path) as file:
        file.write(data[:1])
        file.write(data[1:])


def _as_a_log(path: Path, data: bytes) -> None:
    with durable.open_new(path) as file:
        file.write(data)


WAYS: dict[str, Callable[[Path, bytes], object]] = {
    "replace": durable.replace,
    "replace_text": lambda path, data: durable.replace_text(path, data.decode()),
    "replacing": _in_parts,
    "open_new": _as_a_log,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_link_leads_to_stays(tmp_path: Path, way: str) -> None:
    letter, link = tmp_path / "letter.txt", tmp_path / "report.html"
    letter.write_text("Dear")
    link.symlink_to(letter)
    WAYS[way](link, b"new")
    assert letter.read_text() == "Dear"
    assert not link.is_symlink()
    assert link.read_bytes() == b"new"


@pytest.mark.parametrize("way", WAYS)
def test_a_dangling_link_makes_nothing(tmp_path: Path, way: str) -> None:
    (tmp_path / "report.html").symlink_to(tmp_path / "elsewhere")
    WAYS[way](tmp_path / "report.html", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("way", WAYS)
def test_a_fifo_is_replaced(tmp_path: Path, way: str) -> None:
    os.mkfifo(tmp_path / "report.html")
    WAYS[way](tmp_path / "report.html", b"new")
    assert (tmp_path / "report.html").read_bytes() == b"new"


@contextmanager
def _full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "open_new"])
def test_a_full_disk_leaves_the_old_file_and_is_named_with_it(tmp_path: Path, way: str) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    with _full_disk(), pytest.raises(OSError, match="File too large") as raised:
        WAYS[way](path, b"new and longer")
    assert raised.value.filename == str(path), "not the temporary name"
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_in_its_place_is_an_error(tmp_path: Path, way: str) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OSError, match="directory") as raised:
        WAYS[way](tmp_path / "report.html", b"new")
    assert str(raised.value.filename) == str(tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_an_error_while_it_is_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kn.arpa"
    path.write_text("old")

    def half() -> Iterator[bytes]:
        yield b"half"
        raise KeyError

    with pytest.raises(KeyError), durable.replacing(path) as file:
        file.writelines(half())
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["kn.arpa"]


def test_half_a_surrogate_pair_is_written_as_its_escape(tmp_path: Path) -> None:
    durable.replace_text(tmp_path / "a.html", "a\ud800ü")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == "a\\ud800ü"


@pytest.mark.parametrize("linked", ["he", "he/seed-0"])
def test_a_folder_below_a_study_is_no_link(tmp_path: Path, linked: str) -> None:
    other, out = tmp_path / "mine", tmp_path / "out"
    other.mkdir()
    (out / linked).parent.mkdir(parents=True)
    (out / linked).symlink_to(other)
    with pytest.raises(ValueError, match=f"out/{linked} is a link"):
        make_inside(out, "he/seed-0")
    assert list(other.iterdir()) == []
    assert make_inside(out, "gru/seed-0").is_dir()


def test_the_study_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    make_inside(tmp_path / "out", "logs")
    assert (tmp_path / "disk/logs").is_dir()


def test_checkpoints_that_are_a_link_are_refused_before_anything_is_cleaned(tmp_path: Path) -> None:
    open_run(tmp_path / "run", {"lr": 1.0})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.tmp-999999999").write_text("kept")
    (tmp_path / "run/checkpoints").symlink_to(tmp_path / "mine")
    with pytest.raises(ValueError, match="run/checkpoints is a link"):
        open_run(tmp_path / "run", {"lr": 1.0})
    assert (tmp_path / "mine/notes.tmp-999999999").read_text() == "kept"
