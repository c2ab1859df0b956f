"""`seqloom bench`: mixers timed side by side; loads nothing heavy before it runs."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.folder import folder


def bench(
    mixers: Annotated[list[str], typer.Argument(help="KIND or KIND:NAME=VALUE,…, as attention:heads=1")],
    against: Annotated[str, typer.Option(help="the mixer that all others are ratios to")] = "attention:heads=32",
    what: Annotated[
        str, typer.Option(help="sublayer: forward and backward; forward; token: one generated; step: of a whole model")
    ] = "sublayer",
    dim: Annotated[int | None, typer.Option(help="channels (128)")] = None,
    context: Annotated[int | None, typer.Option(help="tokens of a window (128)")] = None,
    batch: Annotated[int | None, typer.Option(help="windows read at once (as many as hold 8,192 tokens)")] = None,
    repeats: Annotated[int, typer.Option(help="rounds in which all take turns")] = 7,
    threads: Annotated[int | None, typer.Option(help="threads of torch")] = None,
    preset: Annotated[str | None, typer.Option(help="whose model and sizes a step trains (paper/small)")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="a folder for the rows; a race whose rows it holds is not run again", parser=folder, metavar="PATH"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Times mixers side by side, after checking that each computes what its reference does."""
    from seqloom.cli.checked import require_contenders

    require_contenders([*mixers, against], preset or "paper/small", ["data.source=stories"])
    from seqloom.cli.timing import timed

    sizes = {"dim": dim, "context": context, "batch": batch}
    text = timed(
        mixers, against, **sizes, what=what, repeats=repeats, threads=threads, preset=preset, as_json=as_json, out=out
    )
    print(text)
