"""`seqloom distill`: the loss of poles in place of taps, and the memory and operations that they save."""

from pathlib import Path

from seqloom.core.table import table
from seqloom.experiments.distil import Distilled, distil

HEAD = (
    *("layer", "was", "error of the taps", "e off by at most", "beyond the context", "e itself at most"),
    *("state, bytes", "before"),
)


def distilled(run: Path, order: int, out: Path, *, data: str | None, batch: int, step: int | None) -> str:
    """Distills a run and returns the summary."""
    return written(distil(run, order, out, data=data, batch=batch, step=step), order, out)


def written(result: Distilled, order: int, out: Path) -> str:
    """The summary: layers, unchanged layers, losses, and the path of the new run."""
    rows = [
        (
            *(str(layer.number), layer.kind, layer.error, layer.inside + layer.beyond, layer.beyond, layer.taps),
            *(layer.state[1], layer.state[0]),
        )
        for layer in result.layers
    ]
    lines = [
        f"{order} poles a channel in the place of taps; e is of any inputs between -1 and 1, in its worst channel",
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
