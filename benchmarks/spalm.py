"""SPALM next to the same model without a store: `spalm.py FOLDER_OF_BOOKS [OUT]`.

Each model reads the first 60,000 characters of seven books of one author, one of which is held out. The frozen model is
llama/small, the others are transformer_xl/small and spalm/small, all with the sizes below and one seed. FOLDER_OF_BOOKS
has a manifest.csv with the columns file and author. Nothing is timed.
"""

import csv
import sys
from functools import partial
from pathlib import Path

import torch
from harness import append, gate

from seqloom.evaluation.reading import score_reading
from seqloom.face import load
from seqloom.retrieval.building import build
from seqloom.training.preparation import prepared
from seqloom.training.settings import resolve
from seqloom.training.train import train

AUTHOR, BOOKS, CHARACTERS = "Baum, L. Frank", 7, 60_000
SIZES = {"model.dim": 64, "model.depth": 2, "model.context": 64, "model.ffn": 256, "data.vocab": 1000}
BATCHES = 600


def changes(**further: object) -> list[str]:
    """The settings of a run as `--set` takes them."""
    values = {**SIZES, "training.batches": BATCHES, "training.evaluate_every": 0, "data.held_out": 0.1, **further}
    return [f"{name}={value}" for name, value in values.items()]


def append_gate(
    gates: list[torch.Tensor], part: torch.nn.Module, read: tuple[torch.Tensor], logits: torch.Tensor
) -> None:
    """Appends the gate of every token that the model reads."""
    gates.append(logits.sigmoid().flatten())


def main() -> None:
    """A row for the frozen model, the plain one and SPALM."""
    gate("tests/models/test_spalm.py", "tests/retrieval/test_followed.py")
    books, out = Path(sys.argv[1]), Path(sys.argv[2] if sys.argv[2:] else "runs/spalm")
    sys.argv[1:] = ["BOOKS", "OUT"][: len(sys.argv) - 1]  # the row's command names no folder of this machine
    texts = out / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    manifest = csv.DictReader((books / "manifest.csv").read_text(encoding="utf-8-sig").splitlines())
    for file in [row["file"] for row in manifest if row["author"].startswith(AUTHOR)][:BOOKS]:
        (texts / file).write_text((books / file).read_text(encoding="utf-8")[:CHARACTERS], encoding="utf-8")
    frozen = resolve("llama/small", changes(), source=str(texts))
    train(frozen, out / "frozen")
    corpus = prepared(frozen)[1]
    assert corpus is not None
    build(load(out / "frozen"), corpus.train, out / "store", source=str(texts), run=str(out / "frozen"))
    memory = {"model.mixer.memory": SIZES["model.context"]}
    train(resolve("transformer_xl/small", changes(**memory), source=str(texts)), out / "plain")
    train(resolve("spalm/small", changes(**memory, **{"model.store": out / "store"}), source=str(texts)), out / "spalm")
    rows = []
    for name in ("frozen", "plain", "spalm"):
        model = load(out / name)
        gates: list[torch.Tensor] = []
        if name == "spalm":
            model.gate.register_forward_hook(partial(append_gate, gates))
        scores = score_reading(model, corpus.held_out)
        opened = {"gate": round(float(torch.cat(gates).mean()), 3)} if gates else {}
        size = sum(weights.numel() for weights in model.parameters())
        sizes = {"tokens": len(corpus.train), "held_out_tokens": scores.tokens, "batches": BATCHES, "parameters": size}
        rows.append({"model": name, "loss": round(scores.loss, 4), **opened, **sizes})
    append("spalm", rows)


if __name__ == "__main__":
    main()
