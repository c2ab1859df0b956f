"""Gain of a memory on held-out books: `memory_held_out.py FOLDER_OF_BOOKS [--out OUT] [--batches N]`.

    --mixers NAME …    only these of transformer_xl, compressive, pooled, memorizing, rwkv
    --set NAME=VALUE   a setting of all runs, e.g. data.vocab=5000 (default: 2,000); may be repeated

Each mixer stands in the model of transformer_xl/small and is trained twice on as many tokens: on windows of 128 tokens
that are drawn independently, and on consecutive segments of 128 with the memory carried on (training.memory=carry).
Each run is scored twice on whole held-out books, every token predicted once: in windows that start without a memory,
and with the memory carried from the first token of a book to its last. A row is one run. `gain` is the loss of the run
on windows scored in windows, minus that of the run with memory scored with memory.
"""

import argparse
import statistics
import sys
from pathlib import Path

from harness import append, gate

from seqloom.analysis.others import loaded, watch
from seqloom.analysis.reach import tokens_back
from seqloom.evaluation.reading import score_reading
from seqloom.evaluation.scores import score
from seqloom.runs.metrics import read
from seqloom.training.settings import resolve
from seqloom.training.train import train

PRESET, BATCHES, VOCAB = "transformer_xl/small", 1200, 2000
MIXERS = {
    "transformer_xl": "{kind: transformer_xl, heads: 4, memory: 128}",
    "compressive": "{kind: compressive, heads: 4, memory: 128, compressed: 128, rate: 4}",
    "pooled": "{kind: compressive, heads: 4, memory: 128, compressed: 128, rate: 4, compression: max, loss: none}",
    "memorizing": "{kind: memorizing, heads: 4, window: 128, memory: 1024}",
    "rwkv": "{kind: rwkv}",
}


def trained(name, memory, given):
    """A row: the run of a mixer with `memory` none or carry, and its two losses."""
    changes = (
        *(f"model.mixer={MIXERS[name]}", f"training.memory={memory}", f"training.batches={given.batches}"),
        *(f"data.vocab={VOCAB}", "training.evaluate_every=0", *given.set),
    )
    config, others = resolve(PRESET, changes, source=given.books), watch()
    outcome = train(config, Path(given.out) / f"{name}-{memory}")
    if outcome.step < given.batches:
        raise SystemExit(f"{name} was not trained to its end: run the same command again")
    model, held = outcome.model, outcome.corpus.held_out
    alone, on = score(model, held), score_reading(model, held)
    assert alone.tokens == on.tokens
    steps = [row for row in read(outcome.run.metrics) if "loss" in row]
    return {
        "preset": PRESET,
        "mixer": name,
        "settings": MIXERS[name],
        "trained": memory,
        "held_out_in_windows": round(alone.loss, 4),
        "held_out_read_on": round(on.loss, 4),
        "tokens": on.tokens,
        "batches": outcome.step,
        "tokens_a_batch": config.training.batch * config.model.context,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "tokens_back": tokens_back(model.config),
        "seconds_a_batch": round(statistics.median(row["seconds"] for row in steps), 4),
        "loaded": loaded(others()),
        "data": outcome.corpus.identity[:16],
    }


def main():
    """Trains, scores and appends the rows of each mixer as soon as both of its runs have ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("books")
    parser.add_argument("--out", default="runs/memory_held_out")
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, default=list(MIXERS))
    given = parser.parse_args()
    gate("tests/mixers/test_transformer_xl.py", "tests/mixers/test_compressive.py", "tests/training/test_carried.py")
    hidden = {given.books: "BOOKS", given.out: "OUT"}  # the row's command names no folder of this machine
    sys.argv[1:] = [hidden.get(word, word) for word in sys.argv[1:]]
    for name in given.mixers:
        without, carried = (trained(name, memory, given) for memory in ("none", "carry"))
        gain = without["held_out_in_windows"] - carried["held_out_read_on"]
        append("memory_held_out", [without, {**carried, "gain": round(gain, 4)}])


if __name__ == "__main__":
    main()
