"""`seqloom study width`: the options. What they need is imported when the command runs, so that the list is quick."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    mixers: Annotated[list[str], typer.Argument(help="KIND or KIND:NAME=VALUE,…")],
    out: Annotated[Path, typer.Option(help="the folder for the models; the same command continues there")],
    width: Annotated[list[int] | None, typer.Option(help="channels; may be repeated (16, 32, 64)", min=1)] = None,
    data: Annotated[str, typer.Option(help="the text")] = "stories",
    change: Annotated[list[str] | None, typer.Option("--set", help="a setting of all models")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="print the models and the time, and train nothing")] = False,
    jobs: Annotated[int, typer.Option(help="models that train at once")] = 1,
) -> int:
    """Trains mixers at several widths and draws the held-out loss over the width."""
    from my_study import page
    from my_study.study import WidthStudy
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers

    study = WidthStudy(mixers, width or [16, 32, 64], data, change or [])
    return run_study(study.study, out, Workers(jobs), page, planned=plan)
