"""Held-out loss of Markov models on books: `markov_books.py FOLDER_OF_BOOKS [NAME …]`.

Each counts the first tokens of the training side of the books and is scored on all of the held-out ones, in windows of
32 tokens, as the neural models of results/compare_books.jsonl are: same text, same tokenizer, same windows.
"""

import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from harness import append, gate

from seqloom.analysis.others import loaded, watch
from seqloom.data.prepare import prepare
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.evaluation.scores import score
from seqloom.models.kinds import model_config

MILLION = 2**20
CONTEXT = 128
"""tokens of a row while counting"""
SCORED = 32
ROWS = 64
MODELS: Mapping[str, tuple[int, Mapping[str, Any]]] = {
    "kneser_ney": (2**24, {"kind": "ngram", "order": 5}),
    "kneser_ney, 1 M": (MILLION, {"kind": "ngram", "order": 5}),
    "kneser_ney of 3, 1 M": (MILLION, {"kind": "ngram", "order": 3}),
    "context_tree, 1 M": (MILLION, {"kind": "ngram", "estimator": "context_tree", "order": 4}),
    "context_tree pruned, 1 M": (MILLION, {"kind": "ngram", "estimator": "context_tree", "order": 4, "cutoff": 6.0}),
    "hmm, 1 M": (MILLION, {"kind": "hmm", "states": 16, "passes": 8}),
}
"""by name: tokens that are counted at most, and settings"""


def main() -> None:
    gate("tests/models/test_ngram.py", "tests/models/test_context_tree.py", "tests/models/test_hmm.py")
    source, *names = sys.argv[1:]
    sys.argv[1] = "BOOKS"
    corpus = prepare(source, vocab=5000, context=CONTEXT)
    for name in names or MODELS:
        tokens, settings = MODELS[name]
        torch.manual_seed(0)
        model = model_config({**settings, "vocab": corpus.tokenizer.vocab, "context": CONTEXT}).build().eval()
        text = Tokens(corpus.train.ids[:tokens], corpus.train.starts[:1], corpus.train.sizes[:1])
        windows = Windows(text, CONTEXT, 0, disjoint=True)
        others, began, ended, step = watch(), time.perf_counter(), False, 0
        with torch.no_grad():
            while not ended:
                model.fit({"ids": windows.pass_batch(step, ROWS)})
                step += 1
                ended = step % windows.pass_steps(ROWS) == 0 and model.end_pass()
        counted = time.perf_counter() - began
        scores = score(model, corpus.held_out, batch=4 * ROWS, context=SCORED)
        row = {
            "model": name,
            **settings,
            "tokens": len(text),
            "passes": step // windows.pass_steps(ROWS),
            "context": SCORED,
            "held_out_loss": round(scores.loss, 4),
            "bits_per_byte": round(scores.bits_per_byte, 4),
            "held_out_tokens": scores.tokens,
            "table_bytes": sum(table.nbytes for table in model.buffers()),
            "seconds_counting": round(counted, 2),
            "seconds_scoring": round(time.perf_counter() - began - counted, 2),
            "loaded": loaded(others()),
            "data": corpus.identity[:16],
        }
        print({name: row[name] for name in ("model", "bits_per_byte", "seconds_counting")})
        append("markov_books", [row])


if __name__ == "__main__":
    main()
