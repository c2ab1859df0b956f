"""`seqloom export arpa`: the n-grams of a run as an ARPA file."""

import os
from pathlib import Path

VISIBLE = str.maketrans({" ": "▁", "\n": "↵"})
"""replaces blanks in the names of tokens, because in an ARPA file blanks separate the names"""


def written_as_arpa(run: Path, out: Path, step: int | None) -> str:
    """Writes the n-grams of a Kneser-Ney model as an ARPA file; returns how many they are.

    ValueError where the run's model is of another kind or has no tokenizer, and where the file is there already.
    """
    from seqloom.face import load
    from seqloom.models.ngram.interpolated import Interpolated
    from seqloom.runs.durable import replacing

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
