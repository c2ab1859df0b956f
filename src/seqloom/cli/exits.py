"""`seqloom study exits`: a classifier that says how sure a token is after a layer; loads nothing heavy at first."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.folder import folder
from seqloom.cli.text import TEXT, Run, given_of


def exits(
    run: Run,
    data: Annotated[str, typer.Option(help=f"the text to learn from, which the run may know: {TEXT}, stories")],
    out: Annotated[Path, typer.Option(help="the folder of the classifier", parser=folder, metavar="PATH")],
    kind: Annotated[
        str,
        typer.Option(
            help="learned: would later layers change the likeliest token (CALM); Depth-Adaptive's: sequence, one layer "
            "for a text, by its prompt; multinomial, one for each token; geometric, on or not after each layer"
        ),
    ] = "learned",
    oracle: Annotated[
        str | None, typer.Option(help="of Depth-Adaptive's: likelihood (unless given) or correctness of each layer")
    ] = None,
    penalty: Annotated[
        float | None, typer.Option(help="of Depth-Adaptive's: what a layer costs, in nats or right tokens; 0.1")
    ] = None,
    width: Annotated[
        float | None, typer.Option(help="of multinomial and geometric: σ, how far the oracle looks around a token; 1")
    ] = None,
    batches: Annotated[int, typer.Option(help="windows are read so many times", min=1)] = 300,
    batch: Annotated[int, typer.Option(help="windows of a batch", min=1)] = 16,
    rate: Annotated[float, typer.Option(help="learning rate, of Adam")] = 0.01,
    seed: Annotated[int, typer.Option(help="the same seed reads the same windows")] = 0,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Trains a linear classifier of a run's layers, which stay as they are, for `--exit-by`."""
    from seqloom.cli.exiting import trained

    how: dict[str, Any] = {"kind": kind, "batches": batches, "batch": batch, "rate": rate, "seed": seed}
    how |= given_of({"oracle": oracle, "penalty": penalty, "width": width})
    print(trained(run, data, out, column, step, how, as_json=as_json))
