"""`seqloom study extrapolate`: trained models on texts longer than those of their training, a table and a report."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import folder, sizes

if TYPE_CHECKING:
    from seqloom.experiments.extrapolate import Longer


def extrapolate(
    runs: Annotated[list[Path], typer.Argument(help="folders of runs: the --out of their training", metavar="RUN...")],
    out: Annotated[
        Path,
        typer.Option(help="the folder for the rows; the same command continues there", parser=folder, metavar="PATH"),
    ],
    lengths: Annotated[str, typer.Option(help="tokens of a window, e.g. 32,64,128")] = "32,64,128,256,512",
    data: Annotated[
        str | None, typer.Option(help="the text to score on; default: the held-out text of each run")
    ] = None,
    jobs: Annotated[int, typer.Option(help="models that are scored at once, each on a share of the cores")] = 1,
) -> int:
    """Scores runs on windows longer than their training; a run that cannot read them has a row with the reason."""
    windows = sizes("--lengths", lengths)
    from seqloom.experiments.command import typed_command
    from seqloom.experiments.extrapolate import Extrapolate, Longer
    from seqloom.experiments.results import RESULTS
    from seqloom.experiments.runner import Workers, run
    from seqloom.experiments.study import Stopped
    from seqloom.experiments.summary import failures
    from seqloom.report.extrapolate import write

    study = Extrapolate(runs, windows, data)
    try:
        results = run(study.study, out, Workers(jobs), command=typed_command())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    for line in failures(results):
        print(f"seqloom: {line}", file=sys.stderr)
    rows = results.of(Longer)
    if rows:
        print("\n" + printed(rows))
        print(f"\nthe report is {write(out)}: open it in a browser; the rows are in {out / RESULTS}")
    return 2 if results.failed else 0


def printed(rows: "Sequence[Longer]") -> str:
    """Losses by length, of all tokens and of those beyond the trained length, and what could not be read."""
    from seqloom.core.table import table

    lengths = sorted({row.length for row in rows})
    by_run = {(row.run, row.length): row for row in rows}
    first_rows = [next(row for row in rows if row.run == run) for run in dict.fromkeys(row.run for row in rows)]

    def losses(column: str) -> str:
        cells = []
        for first in first_rows:
            values = [getattr(by_run.get((first.run, length)), column, None) for length in lengths]
            cells.append([first.run, first.mixer, first.position, first.context, *values])
        return table(["run", "mixer", "position", "trained on", *map(str, lengths)], cells)

    reasons = {f"{row.run}: {row.refused}": None for row in rows if row.refused is not None}
    parts = ["nats per token, by the tokens of a window", "", losses("loss")]
    if any(row.beyond is not None for row in rows):
        parts += ["", "the same, of the tokens that follow more tokens than training had", "", losses("beyond")]
    return "\n".join([*parts, *(["", "not read:", *reasons] if reasons else [])])
