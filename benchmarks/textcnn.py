"""Accuracy of TextCNN in naming the book of a passage, by its word vectors: `textcnn.py FOLDER_OF_BOOKS [NAME …]`.

    random          random vectors, trained                                         CNN-rand
    random_static   random vectors, fixed
    static          skip-gram vectors, fixed                                        CNN-static
    tuned           skip-gram vectors, trained further                              CNN-non-static
    both            one channel of each                                             CNN-multichannel

The recipe classifier/textcnn with vectors of 64 numbers, on passages of 64 words; passages are held out, books are not.
Skip-gram reads the same books without their labels, held-out passages included. All read the same batches.
"""

import sys
import tempfile
from pathlib import Path

from harness import append, gate

from seqloom.analysis.others import loaded, watch
from seqloom.cli.word_vectors import learned
from seqloom.training.settings import resolve
from seqloom.training.train import train

DIM, EPOCHS = 64, 3
FORMS = {
    "random": ("tuned", False),
    "random_static": ("static", False),
    "static": ("static", True),
    "tuned": ("tuned", True),
    "both": ("both", True),
}
"""by name: model.channels, and whether they begin with the vectors of skip-gram"""
SETTINGS = (
    *(f"model.dim={DIM}", "model.maps=100", "data.labels=book", "data.passage=64", "data.vocab=10000"),
    *("training.batches=500", "training.evaluate_every=0", "training.device=cpu"),
)


def row(name, source, vectors):
    """One training, and its score on the passages held out."""
    channels, begun = FORMS[name]
    changes = (*SETTINGS, f"model.channels={channels}", *([f"training.vectors={vectors}"] if begun else []))
    config, others = resolve("classifier/textcnn", changes, source=source), watch()
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(config, Path(folder) / "run", say=print)
    score = outcome.score
    return {
        "preset": "classifier/textcnn",
        "form": name,
        "channels": channels,
        "vectors": "skip-gram" if begun else "drawn",
        "labels": len(outcome.model.config.labels),
        "batches": config.training.batches,
        "trained": sum(weights.numel() for weights in outcome.model.parameters()),
        "accuracy": round(score["accuracy"], 4),
        "held_out_loss": round(score["held_out"], 4),
        "examples": score["examples"],
        "loaded": loaded(others()),
        "data": outcome.corpus.identity[:16],
    }


def main() -> None:
    gate("tests/models/test_textcnn.py", "tests/data/test_skipgram.py")
    source, *names = sys.argv[1:]
    sys.argv[1] = "BOOKS"
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "vectors.bin"
        print(learned(source, vectors, "text", dim=DIM, window=5, negative=5, least=5, epochs=EPOCHS, seed=0))
        for name in names or FORMS:
            append("textcnn", [row(name, source, vectors)])


if __name__ == "__main__":
    main()
