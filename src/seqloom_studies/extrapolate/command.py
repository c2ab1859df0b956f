"""`seqloom study extrapolate`: trained models on texts longer than those of their training, a table and a report."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Jobs, RowsOut, Share, sizes
from seqloom.cli.time_limit import time_limited


@time_limited
def command(
    runs: Annotated[list[Path], typer.Argument(help="folders of runs: the --out of their training", metavar="RUN...")],
    out: RowsOut,
    lengths: Annotated[str, typer.Option(help="tokens of a window, e.g. 32,64,128")] = "32,64,128,256,512",
    data: Annotated[
        str | None, typer.Option(help="the text to score on; default: the held-out text of each run")
    ] = None,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Scores runs on windows longer than their training; a run that cannot read them has a row with the reason."""
    windows = sizes("--lengths", lengths)
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.extrapolate import page
    from seqloom_studies.extrapolate.study import Extrapolate

    return run_study(Extrapolate(runs, windows, data).study, out, Workers(jobs, share=share), page)
