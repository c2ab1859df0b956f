"""`seqloom runs`: the runs beneath a folder."""

from pathlib import Path
from typing import Annotated

import typer


def runs(
    folder: Annotated[Path, typer.Argument(help="a folder that contains runs, e.g. the --out of compare")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Lists the runs in a folder: state, batches, loss, time, and the settings in which they differ."""
    from seqloom.cli.work.runs import format_runs

    print(format_runs(folder, as_json=as_json))
