"""`seqloom report`: the page of a folder, that of a comparison or of a study, drawn from its rows alone."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.report.results import RESULTS
from seqloom.studies.installed import page_writer


def report(
    out: Annotated[
        Path,
        typer.Argument(
            help="the folder of a comparison, or of a study that has a page: agents, maze, numbers, pictures, …",
            metavar="OUT",
        ),
    ],
) -> None:
    """Writes the page of a comparison or a study again from the rows in its folder; does not load torch."""
    print(f"the report is {write(out)}")


def write(out: Path) -> Path:
    """Writes the page of the comparison or the study in `out`; returns its path. FileNotFoundError and ValueError."""
    from seqloom.report import page

    writer = page_writer(_study(out)) or page.write
    return writer(out)


def _study(out: Path) -> str:
    """The name of the study that `out` was made by; "" for a comparison, and where there are no rows of a study."""
    from seqloom.core.files import read_json

    config = out / "config.json"
    if (out / "comparison.json").is_file() or not (out / RESULTS).is_file() or not config.is_file():
        return ""
    settings = read_json(config)
    return str(settings.get("study", "")) if isinstance(settings, dict) else ""
