"""Accuracy of a classifier of two texts, by mixer: `related.py FOLDER_OF_BOOKS [NAME …]`.

    first    do two texts of 12 words begin with the same word?                  generated from 4 words; half of them do
    same     are two passages of 32 words from one book?                        of books that were not trained on
    later    which of two passages of a book comes later?                       of books that were not trained on

    --tasks NAME …      only these tasks
    --seeds N           trainings of each mixer, with seeds 0, 1, …

The recipe classifier/small at depth 2 and dim 64, without dropout, with one mixer in both layers; a causal one reads
both ways. Every mixer reads the same batches. A convolution of 7 taps reaches 3 tokens to either side in each layer,
and 12 if it is dilated; the two first words are 13 tokens apart.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from harness import append, gate

from seqloom.analysis.others import loaded, watch
from seqloom.training.settings import resolve
from seqloom.training.train import train

MIXERS = {
    "attention": "{kind: attention, heads: 4}",
    "he": "{kind: he}",
    "lightweight_conv": "{kind: lightweight_conv, heads: 4}",
    "dynamic_conv": "{kind: dynamic_conv, heads: 4}",
    "dilated_conv": "[{kind: lightweight_conv, heads: 4}, {kind: lightweight_conv, heads: 4, dilation: 4}]",
    "gru": "{kind: gru}",
    "mamba": "{kind: mamba}",
    "linear": "{kind: linear, heads: 4}",
}
SIZES = (
    *("model.dim=64", "model.depth=2", "model.ffn=256", "model.dropout=0", "model.std=0.1"),
    *("training.evaluate_every=0", "training.schedule.warmup=50", "training.lr=3e-3"),
)
WORDS, KNOWN, PAIRS = 12, 4, 20_000
TASKS = {
    "first": ("model.context=32", "data.vocab=300", "data.tokenizer=words", "training.batches=500"),
    "same": ("model.context=512", "data.vocab=2000", "data.labels=same", "data.passage=32", "training.batches=600"),
    "later": ("model.context=512", "data.vocab=2000", "data.labels=later", "data.passage=32", "training.batches=600"),
}


def pairs_of_words(path):
    """Writes `PAIRS` examples, by turns of texts that begin with the same word and of texts that do not."""
    draws, lines = random.Random(0), []
    for index in range(PAIRS):
        first, second = (draws.choices(range(KNOWN), k=WORDS) for _ in range(2))
        other = draws.choice([word for word in range(KNOWN) if word != first[0]])
        second[0] = first[0] if index % 2 else other
        texts = (" ".join(f"w{word}" for word in text) for text in (first, second))
        lines.append("\t".join((("different", "same")[index % 2], *texts)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def row(task, name, seed, source):
    """One training, and its score on the pairs held out."""
    changes = (*SIZES, *TASKS[task], f"model.mixer={MIXERS[name]}", f"training.seed={seed}", "training.device=cpu")
    config, others = resolve("classifier/small", changes, source=str(source), log=print), watch()
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(config, Path(folder) / "run", say=print)
    score, mixers = outcome.score, outcome.model.config.pattern
    return {
        "task": task,
        "mixer": name,
        "settings": MIXERS[name],
        "seed": seed,
        "batches": config.training.batches,
        "parameters": sum(weights.numel() for weights in outcome.model.parameters()),
        "form": mixers[0].kind,
        "accuracy": round(score["accuracy"], 4),
        "held_out_loss": round(score["held_out"], 4),
        "examples": score["examples"],
        "loaded": loaded(others()),
    }


def main():
    """Trains and scores, and appends each row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("books")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MIXERS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    gate("tests/models/test_classifier.py", "tests/data/test_labels.py")
    sys.argv[1:] = ["BOOKS" if word == given.books else word for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "first.tsv"
        pairs_of_words(generated)
        for task in given.tasks:
            for seed in range(given.seeds):
                for name in given.names or MIXERS:
                    append("related", [row(task, name, seed, generated if task == "first" else given.books)])


if __name__ == "__main__":
    main()
