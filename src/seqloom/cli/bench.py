"""`seqloom bench`: mixers timed side by side; loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import folder


def bench(
    mixers: Annotated[list[str], typer.Argument(help="KIND or KIND:NAME=VALUE,…, e.g. attention:heads=1")],
    against: Annotated[str, typer.Option(help="the mixer that the ratios compare with")] = "attention:heads=32",
    what: Annotated[
        str,
        typer.Option(help="sublayer (forward and backward), forward, token (one generated) or step (one of training)"),
    ] = "sublayer",
    dim: Annotated[int | None, typer.Option(help="channels (128)")] = None,
    context: Annotated[int | None, typer.Option(help="tokens of a window (128)")] = None,
    batch: Annotated[int | None, typer.Option(help="windows read at once (as many as hold 8,192 tokens)")] = None,
    repeats: Annotated[int, typer.Option(help="rounds; in each, all mixers run once")] = 7,
    threads: Annotated[int | None, typer.Option(help="threads of torch")] = None,
    preset: Annotated[str | None, typer.Option(help="with --what step: the recipe of the model (paper/small)")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="a folder for the rows; a measurement whose rows it holds is not repeated",
            parser=folder,
            metavar="PATH",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Times mixers in turns, after checking the output of each against its reference."""
    from seqloom.cli.checked import require_contenders

    require_contenders([*mixers, against], preset or "paper/small", ["data.source=stories"])
    from seqloom.cli.work.bench import time_mixers

    sizes = {"dim": dim, "context": context, "batch": batch}
    text = time_mixers(
        mixers, against, **sizes, what=what, repeats=repeats, threads=threads, preset=preset, as_json=as_json, out=out
    )
    print(text)
