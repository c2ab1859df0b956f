"""`seqloom demo`: the demo's table, what its words mean, a text of each model, and its report."""

import sys
from pathlib import Path

from seqloom.cli.comparing import printed, typed
from seqloom.experiments.demo import demo
from seqloom.experiments.study import Stopped
from seqloom.report.page import write


def shown(out: Path, scale: str) -> int:
    """Runs the demo and prints what it found; returns the exit code, of a signal if one stopped it."""
    try:
        said = demo(out, scale, typed())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    text, home = said.text, out / scale
    print("\n" + printed(said))
    print(
        f"\nheld-out cost: nats a token over the {text.held_out_tokens:,} tokens of {text.held_out_documents} "
        f"stories. Their unigram frequencies alone cost {text.unigram:.3f}; the floor, a lower bound from the "
        f"grammar's own probabilities, is {text.floor:.3f}.\ngrammatical: sampled sentences (top-p 0.9) that are of "
        "the grammar; agreeing: those that also agree with their story's names, things and places so far."
    )
    for each in said.contenders:
        for sample in each.samples[:1]:
            print(f"\n{each.name}: {sample.prompt}{''.join(piece for piece, _ in sample.tokens)}")
    print(f'\nthe runs are in {home}; go on with: seqloom generate {home / "she" / "seed-0"} "Once upon a time"')
    print(f"the report is {write(home)}")
    return 0
