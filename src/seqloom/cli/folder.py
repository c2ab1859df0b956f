"""The argument for the folder that a command writes to."""

from pathlib import Path

import typer


def folder(name: str) -> Path:
    """The path. ValueError for an empty one: an unset shell variable must not scatter a run over the working folder."""
    if not name.strip():
        raise typer.BadParameter("the folder has no name")
    return Path(name)
