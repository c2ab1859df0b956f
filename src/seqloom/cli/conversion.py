"""`seqloom distill` and `arpa`: a run in another form, with poles in place of taps or as n-grams of an ARPA file."""

import os
from pathlib import Path

from seqloom.core.table import table
from seqloom.experiments.distil import Distilled, distil
from seqloom.face import load
from seqloom.models.ngram.interpolated import Interpolated
from seqloom.runs.durable import replacing

VISIBLE = str.maketrans({" ": "▁", "\n": "↵"})
"""replaces blanks in the names of tokens, because in an ARPA file blanks separate the names"""
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


def distilled(run: Path, order: int, out: Path, *, data: str | None, batch: int, step: int | None) -> str:
    """Distills a run and returns the summary."""
    return _summary(distil(run, order, out, data=data, batch=batch, step=step), order, out)


def _summary(result: Distilled, order: int, out: Path) -> str:
    """The summary: layers, unchanged layers, losses, and the path of the new run."""
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


def written_as_arpa(run: Path, out: Path, step: int | None) -> str:
    """Writes the n-grams of a Kneser-Ney model as an ARPA file; returns how many they are.

    ValueError where the run's model is of another kind or has no tokenizer, and where the file is there already.
    """
    model = load(run, step=step)
    if not isinstance(model, Interpolated):
        raise ValueError(f"{run} is a model of kind {model.config.kind}: an ARPA file is of n-grams by kneser_ney")
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so that its tokens have no names")
    if os.path.lexists(out):
        raise ValueError(f"{out} exists already: choose another --out")
    lines = model.arpa([name.translate(VISIBLE) for name in model.tokenizer.names])
    with replacing(out) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
    grams = model.config.vocab + 1 + sum(len(model.keys(order)) for order in range(2, model.config.order + 1))
    return f"{grams:,} n-grams of up to {model.config.order} tokens are in {out}"
