"""`seqloom knn build` and `tune`: a store of what a run read, and how much it counts; loads nothing heavy at first."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import TEXT, Run, Search, folder, numbers

knn = typer.Typer(
    no_args_is_help=True,
    help="Stores of a text as a run read it, for `evaluate --knn` and `generate --knn` (kNN-LM).",
)


@knn.command()
def build(
    run: Run,
    out: Annotated[
        Path,
        typer.Option(help="the folder of the store; the same command goes on there", parser=folder, metavar="PATH"),
    ],
    data: Annotated[
        str | None,
        typer.Option(help=f"the text to remember: {TEXT}, stories; the text that the run was trained on unless given"),
    ] = None,
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    stride: Annotated[
        int | None, typer.Option(help="let windows overlap, each this many tokens after the one before it", min=1)
    ] = None,
    half: Annotated[bool, typer.Option("--half", help="keys in float16, which takes half the disk")] = False,
    lists: Annotated[
        int | None, typer.Option(help="sort the keys into so many inverted lists, by faiss", min=1)
    ] = None,
    probes: Annotated[int, typer.Option(help="lists that each search reads", min=1)] = 8,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
) -> None:
    """Reads a text once and keeps, for each token, its key and the token that followed."""
    from seqloom.cli.retrieval import built

    print(built(run, data, out, batch, stride, half, lists, probes, column, step))


@knn.command()
def tune(
    run: Run,
    store: Annotated[Path, typer.Option("--knn", help="the folder of a store of this run")],
    data: Annotated[str, typer.Option(help=f"the text to predict, held out from both: {TEXT}, stories")],
    k: Annotated[str, typer.Option(help="numbers of neighbors, as 8,64,512")] = "8,64,512",
    weights: Annotated[str, typer.Option(help="shares λ of the neighbors, as 0.1,0.25")] = "0.05,0.1,0.2,0.3,0.4,0.5",
    temperatures: Annotated[str, typer.Option(help="what divides the squared distances, as 1,10")] = "1,3,10,30,100",
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    search: Search = None,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object, with the loss of the whole grid")
    ] = False,
) -> None:
    """Tries every k, λ and temperature on a text and stores the best; `evaluate` and `generate` then take it."""
    grid = (
        numbers("--k", k, "8,64", int),
        numbers("--weights", weights, "0.1,0.25"),
        numbers("--temperatures", temperatures, "1,10"),
    )
    from seqloom.cli.retrieval import tuned

    print(tuned(run, store, data, grid, batch, search, column, step, as_json=as_json))
