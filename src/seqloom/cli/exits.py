"""`seqloom study exits`: a classifier that says how sure a token is after a layer; loads nothing heavy at first."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.folder import folder
from seqloom.cli.text import TEXT, Run


def exits(
    run: Run,
    data: Annotated[str, typer.Option(help=f"the text to learn from, which the run may know: {TEXT}, stories")],
    out: Annotated[Path, typer.Option(help="the folder of the classifier", parser=folder, metavar="PATH")],
    batches: Annotated[int, typer.Option(help="windows are read so many times", min=1)] = 300,
    batch: Annotated[int, typer.Option(help="windows of a batch", min=1)] = 16,
    rate: Annotated[float, typer.Option(help="learning rate, of Adam")] = 0.01,
    seed: Annotated[int, typer.Option(help="the same seed reads the same windows")] = 0,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Trains linear classifiers of a run's layers, which stay as they are, for `--exit-by` (CALM)."""
    from seqloom.cli.exiting import trained

    how = {"batches": batches, "batch": batch, "rate": rate, "seed": seed}
    print(trained(run, data, out, column, step, how, as_json=as_json))
