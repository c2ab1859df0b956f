"""The program: its commands, help, mistakes and `--debug`."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli import run
from seqloom.cli.app import app
from seqloom.runs.layout import open_run
from tests.cli.conftest import Seqloom

NAMES = (
    *("list", "settings", "cost", "train", "generate", "evaluate", "data", "compare", "demo"),
    *("study", "swap", "report", "bench", "doctor", "knn", "export", "runs", "verify"),
    *("distill", "play", "tour", "plan"),
)
"""the commands and groups, of which 22 are the most that a reader looks through, in five panels"""

COLOR = r"\x1b\[(?:\d+;)*3[0-7]m"


def test_there_are_at_most_22_commands() -> None:
    commands = [
        registered_command.name or registered_command.callback.__name__
        for registered_command in app.registered_commands
        if registered_command.callback and not registered_command.hidden
    ]
    groups = [registered_group.name for registered_group in app.registered_groups]
    assert {*commands, *groups} == {*NAMES}
    assert len(NAMES) <= 22


@pytest.mark.parametrize("name", NAMES)
def test_help(seqloom: Seqloom, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = seqloom(name, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"seqloom {name}" in answer.out
    assert name in seqloom("--help").out


def test_the_help_of_play_names_watch(seqloom: Seqloom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "seqloom watch" in seqloom("play", "--help").out
    assert seqloom("watch", "--help").code == 0


def test_the_help_groups_the_commands(seqloom: Seqloom) -> None:
    lines = [line.strip("│ ") for line in seqloom("--help").out.splitlines()]
    heads = [line.split()[1] for line in lines if line.startswith("╭")]
    assert heads == ["Options", "Models", "Comparisons", "Information", "More"]
    names = [line.split()[0] for line in lines if line.split() and line.split()[0] in NAMES]
    assert names[:10] == [
        "train",
        "generate",
        "play",
        "evaluate",
        "swap",
        "distill",
        "knn",
        "export",
        "compare",
        "bench",
    ]


def test_the_help_has_no_color_where_none_is_wanted(seqloom: Seqloom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.FORCE_TERMINAL", True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert re.search(COLOR, seqloom("--help").out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(COLOR, seqloom("--help").out)


def test_no_command_shows_the_help(seqloom: Seqloom) -> None:
    answer = seqloom()
    assert answer.code == 2
    assert all(name in answer.out + answer.err for name in NAMES)
    assert "seqloom: " not in answer.err


@pytest.mark.parametrize("arguments", [["--debug", "cost", "shee"], ["cost", "shee", "--debug"]], ids=" ".join)
def test_debug_shows_where(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["seqloom", *arguments])
    with pytest.raises(ValueError, match="unknown mixer 'shee'"):
        run()


@pytest.mark.slow
def test_after_two_dashes_debug_is_text(trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["seqloom", "generate", "--max-tokens=2", str(trained), "--", "--debug"])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("--debug")


def test_the_folder_of_a_study_is_no_run(seqloom: Seqloom, tmp_path: Path) -> None:
    open_run(tmp_path, {"study": "compare", "format": 1, "model": {"kind": "decoder"}})
    answer = seqloom("evaluate", tmp_path, "--data", "stories:3")
    assert answer.code == 2
    assert f"{tmp_path} holds a study, not a run: its runs are in its subfolders, which `seqloom runs" in answer.err
    assert len(answer.err.splitlines()) == 1
