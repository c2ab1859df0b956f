"""`seqloom demo`: four mixers on stories from a known grammar."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import folder


def demo(
    out: Annotated[Path, typer.Option(help="the folder for the runs", parser=folder, metavar="PATH")] = Path(
        "runs/demo"
    ),
    scale: Annotated[str, typer.Option(help="full takes minutes; tiny takes seconds, to check that it works")] = "full",
) -> int:
    """Trains four mixers on stories from a known grammar, compares them and prints the conclusion."""
    from seqloom.cli.work.demo import show_demo

    return show_demo(out, scale)
