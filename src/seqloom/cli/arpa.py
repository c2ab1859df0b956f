"""`seqloom arpa`: a Kneser-Ney model as an ARPA file, which other toolkits read."""

from pathlib import Path

from seqloom.face import load
from seqloom.models.ngram.interpolated import Interpolated

VISIBLE = str.maketrans({" ": "▁", "\n": "↵"})
"""what blanks in the names of tokens are written as: an ARPA file's own stand between names"""


def written(run: Path, out: Path, step: int | None) -> str:
    """Writes the file and says what is in it.

    ValueError where the run's model is of another kind or has no tokenizer, and where the file is there already.
    """
    model = load(run, step=step)
    if not isinstance(model, Interpolated):
        raise ValueError(f"{run} is a model of kind {model.config.kind}: an ARPA file is of n-grams by kneser_ney")
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so that its tokens have no names")
    if out.exists():
        raise ValueError(f"{out} is there already: choose another --out")
    lines = model.arpa([name.translate(VISIBLE) for name in model.tokenizer.names])
    with out.open("x", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    grams = model.config.vocab + 1 + sum(len(model.keys(order)) for order in range(2, model.config.order + 1))
    return f"{grams:,} n-grams of up to {model.config.order} tokens are in {out}"
