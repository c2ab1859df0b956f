"""`seqloom study poles`: the options, and what is printed of the new run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqloom.cli.options import Run, folder

if TYPE_CHECKING:
    from seqloom_studies.poles.study import Distilled

HEAD = (
    "layer",
    "kind before",
    "relative error of the taps",
    "error of e at most",
    "of this beyond the context",
    "e at most",
    "state, bytes",
    "before",
)


def command(
    run: Run,
    order: Annotated[int, typer.Option(help="poles per channel, which is the number of complex numbers in its state")],
    out: Annotated[Path, typer.Option(help="the folder of the new run", parser=folder, metavar="PATH")],
    data: Annotated[
        str | None,
        typer.Option(
            "--data", "--source", help="the text to score both on; default: the held-out part of the run's text"
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
) -> None:
    """Replaces a run's taps (HE, WE, ME) by poles, for a state of constant size; prints the loss and size of both."""
    from seqloom_studies.poles.study import distil

    print(text(distil(run, order, out, data=data, batch=batch, step=step), order, out))


def text(result: "Distilled", order: int, out: Path) -> str:
    """What is printed: layers, unchanged layers, losses, and the path of the new run."""
    from seqloom.core.table import table

    rows = [
        (
            str(layer.number),
            layer.kind,
            layer.error,
            layer.inside + layer.beyond,
            layer.beyond,
            layer.taps,
            layer.state[1],
            layer.state[0],
        )
        for layer in result.layers
    ]
    lines = [
        f"{order} poles per channel in place of the taps; e is the extraction, with bounds for inputs between -1 and 1 "
        "in the worst channel",
        table(HEAD, rows),
    ]
    lines += [f"layer {number} stays as it is: {why}" for number, why in result.stayed.items()]
    if result.scores is None:
        lines.append(f"the loss of a text was not measured: {result.text}")
    else:
        before, after = result.scores
        losses: list[tuple[str, float, float, float]] = [
            ("loss, nats a token", before.loss, after.loss, after.loss - before.loss),
        ]
        if before.bits_per_byte is not None and after.bits_per_byte is not None:
            bits = before.bits_per_byte, after.bits_per_byte
            losses.append(("bits a byte", *bits, bits[1] - bits[0]))
        lines += ["", table((f"{result.text}, {before.tokens:,} tokens", "before", "after", "difference"), losses)]
    return "\n".join([*lines, "", f"the model is {out}"])
