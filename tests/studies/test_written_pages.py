"""Every page is written in place of what has its name: a link's target stays, a full disk leaves the old page."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqloom.report import html
from seqloom_studies.paper import replication

PAGES = {
    "seqloom.report.page": "report.html",
    "seqloom_studies.markov_gap.page": "markov_gap.html",
    "seqloom_studies.maze.page": "maze.html",
    "seqloom_studies.agents.page": "agents.html",
    "seqloom_studies.extrapolate.page": "extrapolate.html",
    "seqloom_studies.paper.page": "fig8.html",
    "seqloom_studies.board.page": "board.html",
}
REPORTS = ("Report", "MarkovGapReport", "MazeReport", "AgentsReport", "ExtrapolateReport", "StudyReport")


@pytest.fixture(params=[*PAGES, "replication"])
def page(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Callable[[], Path]]:
    """The path of a page, and the function that writes "new" there whatever the rows are."""
    content = SimpleNamespace(charts=[], maps=[], damage=[])
    if request.param == "replication":
        monkeypatch.setattr(replication, "Replication", lambda *_: SimpleNamespace(page=lambda: "new"))
        return tmp_path / "replication.md", lambda: replication.write(tmp_path)
    module: Any = import_module(request.param)
    monkeypatch.setattr(html, "render", lambda *_: "new")
    for name in REPORTS:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, SimpleNamespace(from_rows=lambda rows: content))
    if request.param == "seqloom.report.page":
        monkeypatch.setattr(module, "read", lambda *_: content)
    elif hasattr(module, "read"):
        monkeypatch.setattr(module, "read", lambda *_: [])
    path = tmp_path / PAGES[request.param]
    match request.param:
        case "seqloom_studies.paper.page":
            return path, lambda: module.write(path.with_suffix(".jsonl"))
        case "seqloom_studies.board.page":
            return path, lambda: module.write(path, content)
    return path, lambda: module.write(tmp_path)


def test_a_page_replaces_a_link(page: tuple[Path, Callable[[], Path]]) -> None:
    path, write = page
    letter = path.with_name("letter.txt")
    letter.write_text("Dear")
    path.symlink_to(letter)
    assert write() == path
    assert (letter.read_text(), path.read_text()) == ("Dear", "new")
    assert not path.is_symlink()


def test_a_page_replaces_a_fifo(page: tuple[Path, Callable[[], Path]]) -> None:
    path, write = page
    os.mkfifo(path)
    write()
    assert path.read_text() == "new"


def test_a_full_disk_leaves_the_old_page(
    page: tuple[Path, Callable[[], Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = page
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        write()
    assert raised.value.filename == str(path)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "old"
