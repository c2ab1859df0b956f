"""Share of targets that an encoder-decoder generates exactly, by mixer: dates, and number words of three languages.

The recipe seq2seq/dates with one mixer in the encoder and in the decoder (a causal one reads the source both ways),
seq2seq/bahdanau whole, and seq2seq/vaswani at a size for one core, with the weights and the rate that follow from its
width and a shorter warm-up. Dates are read in bytes, number words in pieces of words and groups of digits, of a
tokenizer of 340 entries. 19,000 pairs are trained on; no source or target of the 1,000 held-out pairs occurs in them.
The goal is 99%.

python benchmarks/pairs.py TASK MODEL …
    dates, numbers-en, numbers-de or numbers-fr;     attention, bahdanau, vaswani, he, mamba or others
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter

from harness import append, gate

from seqloom.training.settings import resolve
from seqloom.training.train import train

NUMBERS = ["training.batches=1000", "data.tokenizer=null", "data.vocab=340"]
LONGER = ["training.batches=2000", "data.tokenizer=null", "data.vocab=340"]  # after 1,000 of French GRUs were at 96.6%
TASKS = {"dates": ["training.batches=600"], "numbers-en": NUMBERS, "numbers-de": LONGER, "numbers-fr": LONGER}
VASWANI = (
    *("model.dim=128", "model.depth=2", "model.ffn=512", "model.context=80", "model.mixer.heads=4"),
    *("model.encoder.depth=2", "model.encoder.mixer.heads=4", "model.cross.heads=4", "model.std=0.088"),
    *("training.batch=64", "training.batches=1000"),
    *("training.schedule.warmup=400", "training.lr=4.4e-3"),  # Eq. 3 with this width and warm-up
)
OF_RECIPE = {"attention": "seq2seq/dates", "bahdanau": "seq2seq/bahdanau", "vaswani": "seq2seq/vaswani"}
CHANGES = {"attention": (), "bahdanau": (), "vaswani": VASWANI}


def row(task, model):
    """Trains a model on a task and scores it on the pairs held out."""
    changes = [f"data.source=pairs:{task}", "training.device=cpu", "training.evaluate_every=0"]
    changes += ["data.tokenizer=bytes", *TASKS[task]]
    changes += CHANGES.get(model, (f"model.mixer.kind={model}", f"model.encoder.mixer.kind={model}"))
    config = resolve(OF_RECIPE.get(model, "seq2seq/dates"), changes, log=print)
    with tempfile.TemporaryDirectory() as folder:
        begun = perf_counter()
        outcome = train(config, Path(folder) / "run", say=print)
        seconds = perf_counter() - begun
    score = outcome.score
    return {
        "task": task,
        "model": model,
        "encoder": config.model.encoder_pattern[0].kind,
        "batches": config.training.batches,
        "parameters": sum(weights.numel() for weights in outcome.model.parameters()),
        "held_out_loss": float(f"{score['held_out']:.4g}"),
        "exact_match": score["accuracy"],
        "pairs": score["pairs"],
        "seconds_with_others": round(seconds),
    }


def main() -> None:
    task, *models = sys.argv[1:]
    gate("tests/models/test_seq2seq.py", "-k", "loss or greedy")
    for model in models:
        append("pairs", [row(task, model)])


if __name__ == "__main__":
    main()
