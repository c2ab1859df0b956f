"""Whether the commit of a row can be looked at: it is in the history of main, and its tree had no changes.

A figure whose code cannot be checked out cannot be checked.
"""

import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
_HASH = re.compile(r"[0-9a-f]{7,40}")


def untraceable(commits: Iterable[str], folder: Path = PACKAGE) -> dict[str, str]:
    """Why each of these commits, as `origin` states them, cannot be looked at; without those that can.

    ValueError where the folder is in no checkout with its whole history.
    """
    history = _history(folder)
    reasons = {}
    for commit in dict.fromkeys(commits):
        if commit.endswith("+"):
            reasons[commit] = f"{commit.rstrip('+')} with changes that were not committed"
        elif not _HASH.fullmatch(commit):
            reasons[commit] = f"{commit}, which is no commit"
        elif not any(each.startswith(commit) for each in history):
            reasons[commit] = f"{commit}, which is not in the history of main"
    return reasons


def require_traceable(commits: Iterable[str], folder: Path = PACKAGE) -> None:
    """ValueError, in one line, where a commit cannot be looked at."""
    reasons = untraceable(commits, folder)
    if reasons:
        first = next(iter(reasons.values()))
        raise ValueError(f"the rows are of commit {first}: commit on main and measure again, or use --scratch")


def commits_since(commit: str, path: str, folder: Path = PACKAGE) -> int:
    """The number of commits on HEAD since this one that changed `path`, from the root of the checkout."""
    return len(_git(folder, "rev-list", f"{commit}..HEAD", "--", f":(top){path}"))


@cache
def _history(folder: Path) -> tuple[str, ...]:
    """The hashes of main, or of HEAD in a checkout without main."""
    if _git(folder, "rev-parse", "--is-shallow-repository") != ("false",):
        raise ValueError("this is no checkout with its whole history: clone it without --depth")
    branch = next(
        (name for name in ("main", "origin/main") if _git(folder, "rev-parse", "--verify", "-q", name)), "HEAD"
    )
    return _git(folder, "rev-list", branch)


def _git(folder: Path, *words: str) -> tuple[str, ...]:
    """The lines that git prints; none where it fails or is not installed."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return ()
    return tuple(done.stdout.split()) if done.returncode == 0 else ()
