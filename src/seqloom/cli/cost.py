"""`seqloom cost`: the price of a mixer or of a model."""

from typing import Annotated

import typer


def cost(
    context: typer.Context,
    kind: Annotated[
        str, typer.Argument(help="a mixer, whose settings are options here; or a preset, for a whole model")
    ],
) -> None:
    """Counts operations and state: `seqloom cost attention --dim 128 --heads 32 [--tokens T] [--per token]`.

    Counts the equation by the paper's conventions, and the operations that the fast path executes. For a preset, counts
    the whole model in training, in prefill and for one more token; `--set` changes its settings. `seqloom cost --all
    --sort total` does so with every mixer in turn.
    """
    from seqloom.cli.work.cost_request import find_requested

    request = find_requested(kind, context.args)
    from seqloom.cli.work.prices import price

    print(price(request))
