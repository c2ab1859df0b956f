"""Trains the six mixers on books with identical batches: `books.py FOLDER_OF_BOOKS [OUT] [BATCHES]`.

The preset is paper/small. Medians of the training loss are over the last 250 batches, like the paper's medians over
intervals of batches; the held-out loss, which the paper lacks, is over whole books that no model was trained on.
"""

import statistics
import sys
from pathlib import Path

from harness import append, gate

from seqloom.analysis.others import loaded, watch
from seqloom.generation.decode import generate
from seqloom.runs.metrics import read
from seqloom.studies.contenders import contender
from seqloom.studies.demo import MIXERS
from seqloom.training.settings import resolve
from seqloom.training.train import train

PROMPT = "Once upon a time there was a little princess who"


def main() -> None:
    gate("tests/ops", "tests/mixers", "tests/training/test_optimizers.py", "tests/evaluation/test_scores.py")
    source, *rest = sys.argv[1:]
    out, batches = Path(rest[0] if rest else "runs/books"), int(rest[1]) if len(rest) > 1 else 1500
    sys.argv[1] = "BOOKS"  # the folder's own place is nobody's business
    sys.argv[2:3] = ["OUT"] if rest else []
    for name, changes in ((each.name, each.changes) for each in map(contender, MIXERS)):
        equal = [f"training.batches={batches}", "training.evaluate_every=0"]
        others = watch()
        outcome = train(resolve("paper/small", [*changes, *equal], source=source), out / name)
        if outcome.score is None:
            raise SystemExit(f"{name} was not trained to its end: run the same command again, or choose another OUT")
        steps = [row for row in read(outcome.run.metrics) if "loss" in row]
        outcome.model.tokenizer = outcome.corpus.tokenizer
        text = "".join(generate(outcome.model, PROMPT, max_tokens=100, top_p=0.6, seed=0))
        seconds = [row["seconds"] for row in steps]
        low, middle, high = statistics.quantiles(seconds, n=4)
        row = {
            "preset": "paper/small",
            "mixer": name,
            "batches": outcome.step,
            "training_loss_median_last_250": round(statistics.median(row["loss"] for row in steps[-250:]), 4),
            "held_out_loss": round(outcome.score["held_out"], 4),
            "bits_per_byte": round(outcome.score["bits_per_byte"], 4),
            "parameters": sum(parameter.numel() for parameter in outcome.model.parameters()),
            "seconds_a_batch": [round(second, 4) for second in (middle, low, high)],
            "loaded": loaded(others()),
            "loop_share": round(1 - sum(row["compute"] for row in steps) / sum(seconds), 4),
            "data": outcome.corpus.identity[:16],
            "text": PROMPT + text,
        }
        append("books", [row])


if __name__ == "__main__":
    main()
