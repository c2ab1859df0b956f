"""Time saved by early exits: a run reads one text token by token with and without exits, by measure and threshold.

python benchmarks/exits.py RUN [--tokens N]     RUN should be trained with training.objective.kind=exits

The run first generates a text after one prompt, with all layers, at temperature 1, up to its window. All variants then
read the same tokens, in turns. A row has the mean number of layers per token, the time relative to all layers, and the
share of tokens whose most probable next token differs.
"""

import argparse
from functools import partial

import torch
from harness import append, compare, gate

import seqloom
from seqloom.generation.exits import Exiting, Exits, read_on
from seqloom.generation.modes import window

PROMPT = "Once upon a time"
WAYS = [("softmax", threshold) for threshold in (0.5, 0.9)] + [("state", threshold) for threshold in (0.9, 0.95, 0.99)]


@torch.no_grad()
def row(model, tokens):
    """Times of all ways, with layers and differences of each."""
    before = model.tokenizer.encode(PROMPT)
    tokens = min(tokens, window(model) - len(before))
    ids = [*seqloom.generate(model, before, max_tokens=tokens, ignore_eos=True)]
    exits = {f"{by} {threshold}": Exits(threshold=threshold, by=by, most=tokens) for by, threshold in WAYS}
    exiting = {name: Exiting(model, each) for name, each in exits.items()}
    steps = {"all layers": partial(model.step, reuse=True)}
    steps |= {name: each.step for name, each in exiting.items()}
    likeliest = {name: read_on(model, step, before, ids)[1] for name, step in steps.items()}
    layers = {name: round(each.depth, 3) for name, each in exiting.items()}

    def read(name):
        step = steps[name] if name not in exits else Exiting(model, exits[name]).step
        return lambda: read_on(model, step, before, ids)

    differing = {
        name: sum(map(int.__ne__, likeliest["all layers"], others)) / len(ids)
        for name, others in likeliest.items()
        if name in exits
    }
    times = compare({name: read(name) for name in steps}, "all layers", repeats=9)
    return {
        "tokens": len(ids),
        "depth": model.config.depth,
        "dim": model.config.dim,
        "vocab": model.config.vocab,
        "layers": layers,
        "differing": differing,
        **times,
    }


def main():
    """One row."""
    words = argparse.ArgumentParser(prog="exits.py", description=__doc__.splitlines()[0])
    words.add_argument("run", help="a folder of a run")
    words.add_argument("--tokens", type=int, default=200)
    given = words.parse_args()
    gate("tests/generation/test_exits.py")
    append("exits", [row(seqloom.load(given.run), given.tokens)])


if __name__ == "__main__":
    main()
