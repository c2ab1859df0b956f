"""Which commits of rows can be looked at."""

import os
import subprocess
from pathlib import Path

import pytest

from seqloom.analysis.history import commits_since, require_traceable, untraceable


def git(folder: Path, *words: str) -> str:
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **who}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, name: str) -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(name)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", name)
    return git(folder, "rev-parse", "--short", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


def test_a_commit_is_traceable_on_main_alone(checkout: Path) -> None:
    first = commit(checkout, "a")
    git(checkout, "checkout", "-qb", "side")
    on_side = commit(checkout, "b")
    reasons = untraceable([first, first + "+", on_side, "0123abc", "seqloom 0.1.0"], checkout)
    assert reasons == {
        first + "+": f"{first} with changes that were not committed",
        on_side: f"{on_side}, which is not in the history of main",
        "0123abc": "0123abc, which is not in the history of main",
        "seqloom 0.1.0": "seqloom 0.1.0, which is no commit",
    }
    require_traceable([first, first], checkout)
    with pytest.raises(ValueError, match=rf"of commit {first} with changes .*: commit on main and measure again"):
        require_traceable([first + "+"], checkout)


def test_commits_since_one_count_those_of_a_path(checkout: Path) -> None:
    first = commit(checkout, "src/a")
    commit(checkout, "docs/b")
    commit(checkout, "src/c")
    commit(checkout, "src/d")
    assert commits_since(first, "src", checkout) == 2
    assert commits_since(first, "docs", checkout) == 1


def test_without_a_history_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no checkout with its whole history"):
        untraceable(["0123abc"], tmp_path)
