"""The demo: attention with many heads and with one, and the four Extractors, on stories from a known grammar.

Every model reads the same batches in the same order. Because the grammar is known, so is the floor of the held-out
cost, and each sampled sentence is or is not one of the grammar.
"""

import sys
from pathlib import Path

from seqloom.core.config import near
from seqloom.core.table import table
from seqloom.evaluation.scores import unigram_entropy
from seqloom.evaluation.stories import floor, judged
from seqloom.experiments.compare import Row, Stopped, compare, contender
from seqloom.face import load
from seqloom.generation.decode import generate
from seqloom.runs.layout import write_json
from seqloom.training.train import Outcome

MIXERS = ("attention:heads=32", "attention:heads=1", "she", "he", "we", "me")
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
    home = out / scale
    stories = 32 if scale == "full" else 2

    def look(outcome: Outcome) -> Row:
        said = judged(outcome.model, stories=stories, tokens=200, top_p=0.9)
        whole = max(said.written, 1)
        return {"grammatical": said.grammatical / whole, "agreeing": said.agreeing / whole}

    try:
        rows, last = compare([contender(text) for text in MIXERS], "demo", SCALES[scale], home, look=look)
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    held = last.corpus.held
    least, unigram = floor(held, last.corpus.tokenizer), unigram_entropy(held)
    write_json(home / "table.json", {"rows": rows, "floor": least, "unigram_entropy": unigram})
    print("\n" + table(list(rows[0]), [[_cell(*entry) for entry in row.items()] for row in rows]))
    print(
        f"\nheld-out cost: nats a token over the {len(held):,} tokens of {held.documents} stories. Their unigram "
        f"frequencies alone cost {unigram:.3f}; the floor, a lower bound from the grammar's own probabilities, is "
        f"{least:.3f}.\ngrammatical: sampled sentences (top-p 0.9) that are of the grammar; agreeing: those that also "
        "agree with their story's names, things and places so far."
    )
    for row in rows:
        print(f"\n{row['model']}: {sample(home / str(row['model']) / 'seed-0')}")
    print(f'\nthe runs are in {home}; go on with: seqloom generate {home / "she" / "seed-0"} "{PROMPT}"')
    return 0


def sample(folder: Path) -> str:
    """What a trained model makes of the prompt."""
    model = load(folder)
    pieces = generate(model, PROMPT, max_tokens=120, top_p=0.6, seed=0, hop=model.config.context // 4)
    return PROMPT + "".join(pieces)


def _cell(name: str, value: object) -> object:
    return f"{value:.0%}" if name in ("grammatical", "agreeing") else value
