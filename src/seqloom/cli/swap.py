"""`seqloom swap`: a model whose attention is replaced in some layers."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import Run, folder


def swap(
    run: Run,
    to: Annotated[
        str, typer.Option("--to", help="the mixer in the place of attention, as he or linear:features=hedgehog")
    ],
    keep: Annotated[
        str,
        typer.Option(
            "--keep-attention", help="layers that keep attention: numbers from 0, as 3,7; or a share of them, as 25%"
        ),
    ] = "25%",
    out: Annotated[Path | None, typer.Option(help="the folder of the new run", parser=folder, metavar="PATH")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="draw all weights of the new mixers")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="print what the swap would change, and load no weights")] = False,
) -> None:
    """Replaces attention in a run, or in a folder of transformers, by another mixer; without training it writes noise.

    `seqloom train PRESET --from OUT` trains the result, `seqloom export hf OUT FOLDER` hands it to transformers.
    """
    from seqloom.cli.work.swap import plan_swap, swap_model

    if plan and (fresh or out is not None):
        raise ValueError("--plan writes nothing and draws nothing: leave out --out and --fresh")
    if plan:
        print(plan_swap(run, to, keep))
        return
    if out is None:
        raise ValueError("add --out, the folder of the new run, or --plan")
    print(swap_model(run, to, keep, out, fresh))
