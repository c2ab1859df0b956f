"""`seqloom settings`: the settings of a run and of each mixer."""

from typing import Annotated

import typer


def settings(
    path: Annotated[
        str | None,
        typer.Argument(help="a section, a setting, a mixer or part of a name: training, training.lr, she, warm"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Lists the settings of a run with type, bounds, default and meaning; all, or those of a section or a mixer."""
    from seqloom.cli.work.settings import settings_text

    print(settings_text(path, as_json=as_json))
