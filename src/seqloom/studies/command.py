"""What the command of a study does with it: prints the plan, or runs the cells, prints a table and writes the page.

def command(out: …, plan: …, jobs: …) -> int:             in command.py of a study, a function for typer
    from my_study import page                             reads rows and nothing else
    return run_study(MyStudy(…).study, out, Workers(jobs), page, planned=plan)
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from seqloom.report.results import StudyRow
from seqloom.studies.plan import plan
from seqloom.studies.results import RESULTS, Results
from seqloom.studies.runner import Workers, run
from seqloom.studies.study import Stopped, Study
from seqloom.studies.summary import failures


class Page(Protocol):
    """A module `page` of a study."""

    def read_rows(self, out: Path) -> Sequence[StudyRow]:
        """The rows in OUT/results.jsonl, those of failed cells left out; ValueError where there is none."""

    def text(self, rows: Sequence[Any]) -> str:
        """The table of these rows, as it is printed."""

    def write(self, out: Path) -> Path:
        """Writes the page of all rows in `out` and returns its path."""


def run_study(study: Study, out: Path, workers: Workers, page: Page, *, planned: bool = False) -> int:
    """Runs a study, prints its rows and writes its page; or prints its plan.

    Returns the exit code: that of a signal which stopped it, 2 where a cell failed, else 0.
    """
    results = run_or_plan(study, out, workers, planned=planned)
    if isinstance(results, int):
        return results
    if rows := _rows_of(results, page):
        print("\n" + page.text(rows))
        print(f"\nthe report is {page.write(out)}: open it in a browser; the rows are in {out / RESULTS}")
    return 2 if results.failed else 0


def run_or_plan(
    study: Study, out: Path, workers: Workers, *, planned: bool, again: Sequence[str] | None = None
) -> Results | int:
    """Runs a study and names the cells that failed; or prints its plan.

    `again` names the models whose cells are repeated; None where the command has no such option. Returns the exit code
    where there are no results: 0 after a plan, or that of the signal which stopped the cells. ValueError where
    something is to be repeated and only a plan is asked for.
    """
    if planned:
        require_unplanned(again or [])
        print(plan(study, out, workers))
        return 0
    try:
        results = run(study, out, workers, command=typed_command(), again=again)
    except Stopped as stopped:
        print(f"{stopped}, without --again, which would repeat all once more" if again else stopped, file=sys.stderr)
        return stopped.code
    for line in failures(results):
        print(f"seqloom: {line}", file=sys.stderr)
    return results


def require_unplanned(again: Sequence[str]) -> None:
    """Raises ValueError where something is to be repeated and only a plan is asked for."""
    if again:
        raise ValueError("--plan trains nothing, so that nothing is repeated: leave --again or --plan out")


def typed_command() -> str:
    """The command as it was typed, without the folders above its files."""
    words = [Path(word).name if word.startswith(("/", "~", ".")) else word for word in sys.argv[1:]]
    return shlex.join(["seqloom", *words])


def _rows_of(results: Results, page: Page) -> list[StudyRow]:
    """The rows of these cells as the page reads them, in the order of the cells."""
    order = {name: number for number, name in enumerate(results.rows)}
    has_rows = any(getattr(row, "failed", None) is None for rows in results.rows.values() for row in rows)
    rows = [row for row in page.read_rows(results.out) if row.cell in order] if has_rows else []
    return sorted(rows, key=lambda row: order[row.cell])
