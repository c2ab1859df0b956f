"""`seqloom knn build` and `tune`: a store of what a run read, and how much it counts; loads nothing heavy at first."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import COLUMN, TEXT, Run, Search, folder, numbers

knn = typer.Typer(
    no_args_is_help=True,
    help="Builds and tunes stores of keys and next tokens, for `evaluate --knn` and `generate --knn` (kNN-LM).",
)


@knn.command()
def build(
    run: Run,
    out: Annotated[
        Path,
        typer.Option(help="the folder of the store; the same command continues there", parser=folder, metavar="PATH"),
    ],
    data: Annotated[
        str | None,
        typer.Option(help=f"the text to store: {TEXT}, stories; default: the run's training text"),
    ] = None,
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    stride: Annotated[
        int | None, typer.Option(help="distance between overlapping windows, in tokens; default: no overlap", min=1)
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="store keys in float16, which halves the disk space")] = False,
    lists: Annotated[
        int | None, typer.Option(help="number of inverted lists for the keys (needs faiss)", min=1)
    ] = None,
    probes: Annotated[
        int | None, typer.Option(help="with --lists: inverted lists that each search reads (8)", min=1)
    ] = None,
    column: Annotated[str | None, typer.Option(help=COLUMN)] = None,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
) -> None:
    """Reads a text once and stores for each token its key (a hidden vector) and the next token."""
    if probes is not None and lists is None:
        raise ValueError("--probes needs --lists: add --lists, e.g. --lists 1024, or leave out --probes")
    from seqloom.cli.work.retrieval import build_store

    print(build_store(run, data, out, batch, stride, half, lists, probes, column, step))


@knn.command()
def tune(
    run: Run,
    store: Annotated[Path, typer.Option("--knn", help="the folder of a store of this run")],
    data: Annotated[
        str, typer.Option(help=f"the text to tune on, in neither the training nor the store: {TEXT}, stories")
    ],
    k: Annotated[str, typer.Option(help="numbers of neighbors, e.g. 8,64,512")] = "8,64,512",
    weights: Annotated[
        str, typer.Option(help="weights λ of the neighbors, e.g. 0.1,0.25")
    ] = "0.05,0.1,0.2,0.3,0.4,0.5",
    temperatures: Annotated[str, typer.Option(help="divisors of the squared distances, e.g. 1,10")] = "1,3,10,30,100",
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    search: Search = None,
    column: Annotated[str | None, typer.Option(help=COLUMN)] = None,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object, with the loss of the whole grid")
    ] = False,
) -> None:
    """Tries every k, λ and temperature on a text and stores the best, which `evaluate` and `generate` then use."""
    grid = (
        numbers("--k", k, "8,64", int),
        numbers("--weights", weights, "0.1,0.25"),
        numbers("--temperatures", temperatures, "1,10"),
    )
    from seqloom.cli.work.retrieval import tune_store

    print(tune_store(run, store, data, grid, batch, search, column, step, as_json=as_json))
