"""The demo: attention with many heads and with one, and the four Extractors, on stories from a known grammar.

Every model reads the same batches in the same order. Because the grammar is known, so is the floor of the held-out
cost, and each sampled sentence is or is not one of the grammar.
"""

import statistics
import sys
from pathlib import Path

import torch

from seqloom.analysis.cost import model_cost
from seqloom.core.config import near
from seqloom.core.state import State, nbytes
from seqloom.core.table import table
from seqloom.evaluation.scores import score, unigram_entropy
from seqloom.evaluation.stories import floor, judged
from seqloom.generation.decode import generate
from seqloom.models.decoder import Decoder
from seqloom.runs.layout import write_json
from seqloom.runs.metrics import read
from seqloom.training.settings import resolve
from seqloom.training.train import Outcome, train

MIXERS: dict[str, list[str]] = {
    "attention-32": ["model.mixer.kind=attention", "model.mixer.heads=32"],
    "attention-1": ["model.mixer.kind=attention", "model.mixer.heads=1"],
    "she": ["model.mixer.kind=she"],
    "he": ["model.mixer.kind=he"],
    "we": ["model.mixer.kind=we"],
    "me": ["model.mixer.kind=me"],
}
SCALES: dict[str, list[str]] = {
    "full": [],
    "tiny": ["data.source=stories:300:0", "model.dim=32", "model.context=32", "model.ffn=64", "training.batches=30"],
}
PROMPT = "Once upon a time"


def run(out: Path, scale: str = "full") -> int:
    """Trains, prints the table and a sample of each; returns the exit code, of a signal if one stopped it.

    What it prints is kept in `table.json` beside the runs.
    """
    if scale not in SCALES:
        raise ValueError(f"unknown scale {scale!r}; {near(scale, SCALES)}")
    rows, samples = [], []
    for name, changes in MIXERS.items():
        print(f"\n{name}", file=sys.stderr)
        outcome = train(resolve("demo", [*SCALES[scale], *changes]), out / scale / name)
        if outcome.asked is not None:
            print(f"stopped and saved; the same command goes on with {name}", file=sys.stderr)
            return 128 + int(outcome.asked)
        outcome.model.tokenizer = outcome.corpus.tokenizer
        rows.append({"model": name, **measured(outcome, stories=32 if scale == "full" else 2)})
        samples.append((name, sample(outcome.model)))
    held = outcome.corpus.held
    least, unigram = floor(held, outcome.corpus.tokenizer), unigram_entropy(held)
    write_json(out / scale / "table.json", {"rows": rows, "floor": least, "unigram_entropy": unigram})
    print("\n" + table(list(rows[0]), [[_cell(*entry) for entry in row.items()] for row in rows]))
    print(
        f"\nheld-out cost: nats a token over the {len(held):,} tokens of {held.documents} stories. Their unigram "
        f"frequencies alone cost {unigram:.3f}; the floor, a lower bound from the grammar's own probabilities, is "
        f"{least:.3f}.\ngrammatical: sampled sentences (top-p 0.9) that are of the grammar; agreeing: those that also "
        "agree with their story's names, things and places so far."
    )
    for name, text in samples:
        print(f"\n{name}: {text}")
    print(f'\nthe runs are in {out / scale}; go on with: seqloom generate {out / scale / "she"} "{PROMPT}"')
    return 0


def measured(outcome: Outcome, stories: int) -> dict[str, float]:
    """A trained model's numbers, by the words that the table's head has for them."""
    model = outcome.model
    context = model.config.context
    steps = [row for row in read(outcome.run.metrics) if "cost" in row]
    scores = outcome.scores or score(model, outcome.corpus.held)
    said = judged(model, stories=stories, tokens=200, top_p=0.9)
    seconds = statistics.median(row["seconds"] for row in steps)
    batch = outcome.run.settings["training"]["batch"]
    return {
        "training cost": statistics.median(row["cost"] for row in steps[-250:]),
        "held-out cost": scores.cost,
        "bits a byte": scores.bits_per_byte,
        "grammatical": said.grammatical / max(said.written, 1),
        "agreeing": said.agreeing / max(said.written, 1),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "operations a token": model_cost(model, context).total // context,
        "ms a step": seconds * 1e3,
        "tokens a second": round(batch * context / seconds),
        "state bytes": nbytes(state_after(model, context)),
    }


def _cell(name: str, value: object) -> object:
    return f"{value:.0%}" if name in ("grammatical", "agreeing") else value


def state_after(model: Decoder, tokens: int) -> State:
    """What one row keeps after `tokens` tokens, trimmed as it would be saved."""
    with torch.no_grad():
        return model.trim(model.extend(torch.zeros(1, tokens, dtype=torch.long), model.start(1))[1])


def sample(model: Decoder) -> str:
    """What the model makes of the prompt."""
    pieces = generate(model, PROMPT, max_tokens=120, top_p=0.6, seed=0, hop=model.config.context // 4)
    return PROMPT + "".join(pieces)
