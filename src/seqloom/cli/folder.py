"""The folder that a command writes to, as it is given."""

from pathlib import Path

import typer


def folder(name: str) -> Path:
    """Its path. An unset variable of a shell must not scatter a run over the working folder."""
    if not name.strip():
        raise typer.BadParameter("the folder has no name")
    return Path(name)
