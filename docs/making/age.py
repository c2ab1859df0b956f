"""How old the rows of a page are: of which commits, and how many commits changed the library since.

The site shows this below each page that links rows of results/; a page in the repository cannot, since it would change
with every commit.
"""

import re
from pathlib import Path

from docs.making.results import RESULTS
from seqloom.analysis.history import commits_since
from seqloom.core.table import markdown
from seqloom.report.stored import read_rows

MEASURED = "src/seqloom"
"""the code that rows are measured of"""
_LINK = re.compile(r"\]\((?:\.\./)*results/([\w/-]+\.jsonl)\)")
HEAD = ("rows", "number", "measured", "oldest commit", "commits to the code since")


def ages(text: str, results: Path = RESULTS) -> str:
    """A section about the files of rows that the Markdown links; "" where it links none that is there."""
    names = sorted(set(_LINK.findall(text)))
    lines = [line for name in names if (line := _line(name, results)) is not None]
    return f"\n\n## How old these rows are\n\n{markdown(HEAD, lines)}\n" if lines else ""


def _line(name: str, results: Path) -> list[str] | None:
    """One line of the table; None for a file without rows that can be traced."""
    rows = read_rows(results / name)
    origins = [row.get("origin", row) for row in rows]
    traced = sorted({(origin["date"], origin["commit"]) for origin in origins if "commit" in origin})
    if not traced:
        return None
    (first, commit), (last, _) = traced[0], traced[-1]
    dates = first if first == last else f"{first} to {last}"
    return [f"[{name}](../results/{name})", f"{len(rows):,}", dates, commit, f"{commits_since(commit, MEASURED):,}"]
