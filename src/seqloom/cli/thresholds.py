"""`seqloom study thresholds`: a threshold for each layer, by grid search; loads nothing heavy at first."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.text import TEXT, Run


def thresholds(
    run: Run,
    exit_by: Annotated[Path, typer.Option(help="the folder of `seqloom study exits` that they are for")],
    data: Annotated[str, typer.Option(help=f"the text to try them on, held out from both: {TEXT}, stories")],
    delta: Annotated[float, typer.Option(help="how much smaller the share of right tokens may become")] = 0.01,
    grid: Annotated[str, typer.Option(help="thresholds that each layer may have")] = "0.3,0.5,0.7,0.9,1",
    seed: Annotated[int, typer.Option(help="of the windows, and of the combinations where there are many")] = 0,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Finds a threshold for each layer that reads fewest layers; `generate --exit-by` then takes them."""
    try:
        values = [float(word) for word in grid[:1000].split(",")]
    except ValueError:
        raise ValueError(f"--grid is a list of numbers, as 0.5,0.9, not {grid[:60]!r}") from None
    from seqloom.cli.exiting import searched

    print(searched(run, exit_by, data, column, step, values, delta, seed, as_json=as_json))
