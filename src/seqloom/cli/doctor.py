"""`seqloom doctor`: what is installed and runs here, or which files of a run are damaged."""

from pathlib import Path
from typing import Annotated

import typer


def doctor(
    run: Annotated[Path | None, typer.Argument(help="the folder of a run, to check its files instead")] = None,
) -> int:
    """Shows versions and available backends; or checks each file of a run against its digest (exit 1 if damaged)."""
    if run is None:
        from seqloom.cli.work.environment import environment

        print(environment())
        return 0
    from seqloom.cli.work.run_health import check_files

    lines, undamaged = check_files(run)
    print(lines)
    return 0 if undamaged else 1
