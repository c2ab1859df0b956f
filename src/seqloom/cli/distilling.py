"""`seqloom distill`: what poles in the place of taps cost, and what they save."""

from pathlib import Path

from seqloom.core.table import table
from seqloom.experiments.distil import Distilled, distil

HEAD = (
    *("layer", "was", "error of the taps", "e off by at most", "beyond the context", "e itself at most"),
    *("state, bytes", "before"),
)


def distilled(run: Path, order: int, out: Path, *, data: str | None, batch: int, step: int | None) -> str:
    """Distils a run and says what came of it."""
    return written(distil(run, order, out, data=data, batch=batch, step=step), order, out)


def written(found: Distilled, order: int, out: Path) -> str:
    """The layers, what stayed, the loss of the text, and where it goes on."""
    rows = [
        (
            *(str(layer.number), layer.kind, layer.error, layer.inside + layer.beyond, layer.beyond, layer.taps),
            *(layer.state[1], layer.state[0]),
        )
        for layer in found.layers
    ]
    lines = [
        f"{order} poles a channel in the place of taps; e is of any inputs between -1 and 1, in its worst channel",
        table(HEAD, rows),
    ]
    lines += [f"layer {number} stays as it is: {why}" for number, why in found.stayed.items()]
    if found.scores is None:
        lines.append(f"the loss of a text was not measured: {found.text}")
    else:
        before, after = found.scores
        losses = [
            ("loss, nats a token", before.loss, after.loss, after.loss - before.loss),
            ("bits a byte", before.bits_per_byte, after.bits_per_byte, after.bits_per_byte - before.bits_per_byte),
        ]
        lines += ["", table((f"{found.text}, {before.tokens:,} tokens", "before", "after", "difference"), losses)]
    return "\n".join([*lines, "", f"the model is {out}"])
