"""`seqloom distill`: a model whose attention is distilled into other mixers."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import TEXT, Run, folder, out_folder
from seqloom.cli.over import OVER


def distill(
    run: Run,
    to: Annotated[
        str, typer.Option("--to", help="the mixer in the place of attention, as he or linear:features=hedgehog")
    ],
    data: Annotated[str, typer.Option(help=f"the text to learn from: {TEXT}, stories")],
    keep: Annotated[
        str,
        typer.Option(
            "--keep-attention",
            help="layers that keep attention: numbers from 0, as 3,7; a share, as 25%; or auto:25%, those that need it "
            "most",
        ),
    ] = "25%",
    out: Annotated[
        Path | None,
        typer.Option(
            help="the folder of the new run; the same command continues where it stopped", parser=folder, metavar="PATH"
        ),
    ] = None,
    tokens: Annotated[str, typer.Option(help="tokens to learn from, such as 20M or 500k")] = "1M",
    batch: Annotated[int, typer.Option(help="rows of an optimizer step", min=1)] = 16,
    context: Annotated[
        int | None, typer.Option(help="tokens of a row (default: as many as the model's context)", min=1)
    ] = None,
    rate: Annotated[float, typer.Option(help="highest learning rate")] = 1e-3,
    temperature: Annotated[float, typer.Option(help="divisor of the logits that are compared")] = 1.0,
    seed: Annotated[int, typer.Option(help="of new weights")] = 0,
    held_out: Annotated[float, typer.Option(help="share of the text that is only scored")] = 0.05,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of the training, e.g. training.precision=bf16")
    ] = None,
    baselines: Annotated[
        bool,
        typer.Option("--baselines", help="also train fresh mixers, and a model from random weights, on as many tokens"),
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="print memory and operations, and train nothing")] = False,
) -> int:
    """Replaces attention by another mixer and trains that to compute what attention did; prints what it costs.

    First each new sublayer learns the output of attention on its input, then the streams after the layers, then the
    logits; last, every weight learns the text. Compared with the teacher, with the layers removed and with a window.
    """
    from seqloom.cli.work.distill import count_tokens, plan_distillation, read_training, show_rows
    from seqloom.training.distillation import Distillation
    from seqloom.training.distilling import distill as run_distillation

    asked = Distillation(
        teacher=run,
        out=out_folder(out, planned=plan),
        to=to,
        data=data,
        keep=keep,
        tokens=count_tokens(tokens),
        batch=batch,
        context=context,
        rate=rate,
        temperature=temperature,
        seed=seed,
        held_out=held_out,
        training=read_training(change or []),
    )
    if plan:
        print(plan_distillation(asked))
        return 0
    found = run_distillation(asked, baselines=baselines)
    outcome = found.outcome
    if outcome.asked is not None:
        if outcome.step == outcome.first and OVER.is_set():
            raise ValueError("--minutes ended before one step was done: allow more; nothing is lost")
        print(f"stopped after step {outcome.step:,} and saved; the same command continues from there")
        return 128 + int(outcome.asked)
    print(show_rows(found, asked))
    return 0
