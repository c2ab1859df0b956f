"""`seqloom report`: the page of a folder, that of a comparison or of a study, drawn from its rows alone."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import folder
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
    figures: Annotated[
        Path | None,
        typer.Option(help="write every chart of a comparison into this folder", parser=folder, metavar="DIR"),
    ] = None,
    formats: Annotated[str, typer.Option("--format", help="with --figures: a list of pdf, svg, png")] = "pdf",
    width: Annotated[str, typer.Option(help="with --figures: the width of each, as 3.3in, 84mm or 240pt")] = "3.3in",
    font: Annotated[float, typer.Option(help="with --figures: the size of its text, in points")] = 8,
    names: Annotated[
        list[str] | None,
        typer.Option(help="another name of a model, MODEL=NAME, in figures and tables; may be repeated"),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="print the table of a comparison: latex (booktabs), markdown, csv or text")
    ] = None,
) -> None:
    """Writes the page of a comparison or a study again from the rows in its folder; does not load torch.

    With --figures or --table it writes the charts as files for a paper, or prints the table, instead.
    """
    if figures is None and table is None:
        if names:
            raise ValueError("--names is for --figures and --table: the page has the names of the runs")
        print(f"the report is {write(out)}")
        return
    from seqloom.report.figures import Figures, parse_width, require_formats, write_figures
    from seqloom.report.formats import format_table
    from seqloom.report.read import read

    sizes = Figures(require_formats(formats), parse_width(width), font)
    rows = read(out).with_names(dict(_name_pair(text) for text in names or []))
    if table is not None:
        print(format_table(rows, table))
    if figures is not None:
        for path in write_figures(rows, figures, sizes):
            print(path, file=sys.stderr if table is not None else sys.stdout)


def _name_pair(text: str) -> tuple[str, str]:
    """A model and its other name: of `attention-heads=4=Attention` the last sign parts them."""
    model, sign, name = text.rpartition("=")
    if not sign or not model or not name.strip():
        raise ValueError(f"--names is MODEL=NAME, such as attention-heads=4=Attention, not {text[:80]!r}")
    return model, name.strip()


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
