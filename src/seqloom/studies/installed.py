"""The studies that are installed: entry points of the group `seqloom.studies`, each the function of a typer command.

    [project.entry-points."seqloom.studies"]      # in the package's pyproject.toml
    my-study = "my_study.command:command"         `seqloom study my-study`; importing it loads no torch

A module `page.py` next to it, where there is one, has `write(out)`, by which `seqloom report` writes the page again.
Ours are in the package seqloom_studies, whose `COMMANDS` are read too, since a folder on PYTHONPATH has no metadata.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seqloom.core.error_text import reason

GROUP = "seqloom.studies"
OURS = "seqloom_studies"
"""the package beside this one; nothing here imports it by a statement"""


@cache
def installed_studies() -> dict[str, EntryPoint]:
    """The entry points of all studies by name, ours first; nothing of theirs is imported.

    A study with the name of an earlier one is left out, with a line on standard error.
    """
    studies = {point.name: point for point in _ours()}
    for point in entry_points(group=GROUP):
        first = studies.setdefault(point.name, point)
        if first.value != point.value:
            print(f"seqloom: {_title(point)} is left out: {first.value} has that name", file=sys.stderr)
    return studies


def study_command(name: str) -> Callable[..., Any]:
    """The function of a study's command. ValueError, in one line, where it cannot be imported."""
    point = installed_studies()[name]
    try:
        command = point.load()
        if not callable(command):
            raise TypeError(f"{point.value} is no function")
    except (Exception, SystemExit) as error:  # importing foreign code can raise anything
        raise ValueError(f"{_title(point)} cannot be used: {reason(error)}") from error
    return command


def page_writer(name: str) -> Callable[[Path], Path] | None:
    """What writes the page of a study from the rows in its folder; None where there is no such study or no page."""
    point = installed_studies().get(name)
    if point is None:
        return None
    page = f"{point.module.rpartition('.')[0]}.page"
    try:
        if find_spec(page) is None:
            return None
        writer: Callable[[Path], Path] | None = getattr(import_module(page), "write", None)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{_title(point)} cannot be shown: {reason(error)}") from error
    return writer


def _ours() -> list[EntryPoint]:
    """The studies of `OURS`, where that package can be imported."""
    if find_spec(OURS) is None:
        return []
    return [EntryPoint(name, value, GROUP) for name, value in import_module(OURS).COMMANDS.items()]


def _title(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"the study {point.name!r}{package} ({point.value})"
