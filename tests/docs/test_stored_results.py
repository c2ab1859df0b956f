"""Every row of results/: its machine, its command, and a commit that can be looked at, unless it is marked as lost."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from docs.making.age import ages
from docs.making.results import RESULTS
from seqloom.analysis.history import untraceable
from seqloom.cli.app import app
from seqloom.report.stored import read_rows

ROOT = RESULTS.parent
FILES = sorted(RESULTS.rglob("*.jsonl"))


@cache
def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, each with its own origin or, of a figure's rows, with that of the figure."""
    made = []
    origin: dict[str, Any] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        origin = row.get("origin") or origin
        made.append({**origin, **row})
    return made


@cache
def history_is_here() -> bool:
    try:
        untraceable([])
    except ValueError:
        return False
    return True


needs_history = pytest.mark.skipif(not history_is_here(), reason="a checkout without its history")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(RESULTS).as_posix())
def test_every_row_says_where_it_is_from(path: Path) -> None:
    assert rows(path)
    for row in rows(path):
        for name in ("machine", "commit", "date", "command"):
            assert row.get(name), f"{name} is missing in {json.dumps(row)[:200]}"


@needs_history
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(RESULTS).as_posix())
def test_rows_whose_code_is_lost_are_marked_and_no_others(path: Path) -> None:
    reasons = untraceable(row["commit"] for row in rows(path))
    marked = {row["commit"] for row in rows(path) if row.get("lost")}
    assert marked == set(reasons), "mark rows of these commits with lost: true, or measure them again"


def test_lost_rows_are_in_no_page(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"mixer": "he", "lost": true}\n{"mixer": "he", "ms": 1}\n')
    assert read_rows(tmp_path / "a.jsonl") == [{"mixer": "he", "ms": 1}]


@needs_history
def test_a_page_of_the_site_says_how_old_its_rows_are(tmp_path: Path) -> None:
    rows_of = [
        {"mixer": "he", "commit": "69fc0104", "date": "2026-11-27"},
        {"commit": "207dcc1e", "date": "2026-11-26"},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of))
    text = ages("[rows](../results/a.jsonl), again [here](../results/a.jsonl); [none](../results/b.jsonl)", tmp_path)
    assert text.count("a.jsonl") == 2
    cells = text.splitlines()[-1].split(" | ")
    assert cells[1:4] == ["2", "2026-11-26 to 2026-11-27", "207dcc1e"]
    assert int(cells[4].strip(" |")) >= 1
    assert ages("no rows", tmp_path) == ""


@needs_history
def test_every_command_parses_or_its_file_is_at_its_commit() -> None:
    made = [row for path in FILES for row in rows(path) if not row.get("lost")]
    others = sorted({(row["commit"], *row["command"].split()[:3]) for row in made if not parses(row["command"])})
    assert not [words for words in others if not had(*words)]


@cache
def parses(command: str) -> bool:
    """Whether `seqloom VERB …` names a verb and options that are there today."""
    program, *words = command.split()
    if program != "seqloom":
        return False
    group: Any = typer.main.get_command(app)
    while hasattr(group, "list_commands"):
        if not words or words[0] not in group.list_commands(None):
            return False
        group, words = group.get_command(None, words[0]), words[1:]
    options = {name for parameter in group.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return all(word.partition("=")[0] in options for word in words if word.startswith("--"))


def had(commit: str, program: str, first: str, *rest: str) -> bool:
    """Whether the code of a command was there at this commit."""
    if program == "seqloom":
        verb = f"def {first.replace('-', '_')}("
        return bool(git("grep", "-l", "-F", verb, commit, "--", "seqloom/cli", "src/seqloom/cli"))
    if program == "make":
        return bool(git("grep", "-l", f"^{first}:", commit, "--", "Makefile"))
    path = f"{rest[0].replace('.', '/')}.py" if first == "-m" else first
    return bool(git("ls-tree", commit, path))


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout
