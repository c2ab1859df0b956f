"""`seqloom study conversions`: attention of a teacher distilled into other mixers."""

from typing import Annotated

import typer

from seqloom.cli.options import TEXT, Jobs, RowsOut, Run, Share
from seqloom.cli.time_limit import time_limited


@time_limited
def command(
    run: Run,
    data: Annotated[str, typer.Option(help=f"the text to learn from: {TEXT}, stories")],
    out: RowsOut,
    to: Annotated[
        str, typer.Option("--to", help="mixers in the place of attention, as gated_delta,he")
    ] = "gated_delta",
    keep: Annotated[
        str, typer.Option(help="shares of the layers that keep attention, as none,25%,auto:50%")
    ] = "none,25%,50%",
    tokens: Annotated[str, typer.Option(help="numbers of tokens to learn from, as 1M,5M")] = "1M",
    seeds: Annotated[int, typer.Option(help="distillations of each kind, with different new weights", min=1)] = 1,
    batch: Annotated[int, typer.Option(help="rows of an optimizer step", min=1)] = 16,
    context: Annotated[
        int | None, typer.Option(help="tokens of a row (default: as many as the model's context)", min=1)
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="also train fresh mixers, and a model from random weights, on as many tokens"),
    ] = False,
    jobs: Jobs = 1,
    share: Share = False,
) -> int:
    """Distils a teacher into mixers, with several shares of layers that keep attention, next to four baselines."""
    from seqloom.cli.work.distill import count_tokens
    from seqloom.studies.command import run_study
    from seqloom.studies.runner import Workers
    from seqloom_studies.conversions import page
    from seqloom_studies.conversions.study import Conversions

    study = Conversions(
        teacher=run,
        data=data,
        to=_split(to),
        keep=_split(keep),
        tokens=[count_tokens(number) for number in _split(tokens)],
        seeds=seeds,
        batch=batch,
        context=context,
        baselines=baselines,
    )
    return run_study(study.study, out, Workers(jobs, share=share), page)


def _split(text: str) -> list[str]:
    return [word for word in text.split(",") if word]
