"""Packs the small models that come with seqloom, which `seqloom play` opens when it is given none.

    python -m seqloom_studies.board.carried runs/play/* --text "… books for children" --commit 24047b95

Each run is one of

    seqloom train board/small --data BOOKS --out runs/play/KIND --set model.mixer.kind=KIND --set model.context=2048
        --set training.batch=2

Its newest model, with weights rounded to bfloat16, goes into src/seqloom/play/models/KIND, with a README.md.
"""

import argparse
from pathlib import Path
from typing import Any

from seqloom.evaluation.surprise import surprise
from seqloom.face import load
from seqloom.models.kinds import model_config
from seqloom.play.library import CARRIED
from seqloom.runs.durable import discard, replace_text
from seqloom.runs.layout import Run
from seqloom.runs.model import save_rounded
from seqloom.runs.rows import scan

SENTENCE = "The old woman looked at the boy, and said: “Come in, and sit down by the fire.” So he went in.\n"
"""ours; the run and the rounded model are compared on it"""
CARD = """# {kind}: a small model that comes with seqloom

It writes in the manner of old books for children, without much sense: it is there to be looked at.

| | |
|---|---|
| model | `{kind}` in {depth} layers, dim {dim}, context {context:,}, {parameters:,} parameters |
| text | {text}; digest `{identity:.12}` |
| tokens | {tokens:,} read in training, {batches:,} batches of {batch} × {context:,}; BPE of {vocab:,} |
| loss | {held_out:.3f} nats a token, {bits:.3f} bits a byte, on books of other authors |
| weights | rounded to bfloat16: a sentence of ours costs {rounded:.3f} bits a byte, before {exact:.3f} |
| code | commit {commit}, one thread of a CPU |

```sh
seqloom train board/small --data BOOKS --out runs/{kind} \\
  --set model.mixer.kind={kind} --set model.context={context} --set training.batch={batch}
```
"""


def pack(folder: Path, out: Path, text: str, commit: str) -> Path:
    """Packs the run in `folder` as a folder of `out`, which is returned. ValueError where it is not finished."""
    run = Run(folder)
    settings = run.settings
    rows = scan(run.metrics).rows
    if not rows or "held_out" not in rows[-1]:
        raise ValueError(f"{folder} is not trained to its end: go on with its training first")
    packed = save_rounded(folder, out / settings["model"]["mixer"]["kind"])
    discard(packed / "lock")
    exact, rounded = (surprise(load(model), SENTENCE).bits_per_byte for model in (folder, packed))
    about = {"text": text, "commit": commit, "exact": exact, "rounded": rounded}
    replace_text(packed / "README.md", card(settings, rows[-1], about))
    return packed


def card(settings: dict[str, Any], scores: dict[str, Any], about: dict[str, Any]) -> str:
    """The README.md of a model, given the settings and the last row of its run."""
    model, training = settings["model"], settings["training"]
    return CARD.format(
        kind=model["mixer"]["kind"],
        **{name: model[name] for name in ("depth", "dim", "vocab", "context")},
        batch=training["batch"],
        batches=scores["step"],
        parameters=sum(tensor.numel() for tensor in model_config(model).tensors().values()),
        identity=settings["data"]["identity"],
        tokens=scores["step"] * training["batch"] * model["context"],
        held_out=scores["held_out"],
        bits=scores["bits_per_byte"],
        **about,
    )


def main() -> None:
    """Packs the runs that are named, and prints where each is."""
    words = argparse.ArgumentParser(prog="carried.py", description=(__doc__ or "").splitlines()[0])
    words.add_argument("runs", nargs="+", type=Path)
    words.add_argument("--text", required=True, help="what they were trained on, in words")
    words.add_argument("--commit", required=True, help="that of the code that trained them")
    words.add_argument("--out", type=Path, default=CARRIED)
    given = words.parse_args()
    for folder in given.runs:
        print(pack(folder, given.out, given.text, given.commit))


if __name__ == "__main__":
    main()
