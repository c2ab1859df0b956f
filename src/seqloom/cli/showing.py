"""`seqloom demo`: the table, a story of each model, the verdict, the report, and what to type next."""

import sys
from pathlib import Path

from seqloom.cli.comparing import printed, typed
from seqloom.experiments.demo import LENGTHS, demo
from seqloom.experiments.study import Stopped
from seqloom.report.answer import sentences
from seqloom.report.comparison import Comparison
from seqloom.report.page import write


def shown(out: Path, scale: str) -> int:
    """Runs the demo and prints what it found; returns the exit code, of a signal if one stopped it."""
    try:
        found = demo(out, scale, typed())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    text, home = found.text, out / scale
    print("\n" + printed(found))
    for each in found.contenders:
        for sample in each.samples[:1]:
            print(f"\n{each.name}: {sample.prompt}{''.join(piece for piece, _ in sample.tokens)}")
    print(
        f"\nheld-out loss: nats per token over the {text.held_out_tokens:,} tokens of {text.held_out_documents} "
        f"stories. Their unigram entropy is {text.unigram:.3f}; a lower bound from the grammar's own probabilities is "
        f"{text.floor:.3f}.\ngrammatical: sampled sentences (top-p 0.9) that are of the grammar; agreeing: those that "
        "also agree with their story's names, things and places so far."
    )
    print("\n" + "\n".join(verdict(found)))
    print(f"\nthe report is {write(home)}: open it in a browser")
    print("next: seqloom compare attention:heads=4 he gated_delta --data YOUR_TEXT --out runs/mine --seeds 3")
    return 0


def verdict(found: Comparison) -> list[str]:
    """What the demo shows, in a few sentences: who predicted best, and what a token costs near and far."""
    lines = sentences(found)
    if found.seeds == 1:
        lines.append("One run of each is too short to tell them apart: `--seeds 3` of compare gives intervals.")
    first, last = (f"ms a token at {length:,}" for length in LENGTHS)
    state = f"state bytes at {LENGTHS[-1]:,}"
    for each in found.contenders:
        times = [each.value(name) for name in (first, last)]
        if None not in times:
            lines.append(
                f"{each.name}: a token takes {times[0]:.2f} ms after {LENGTHS[0]:,} tokens and {times[1]:.2f} ms after "
                f"{LENGTHS[1]:,}, with a state of {each.value(state):,.0f} bytes there."
            )
    return lines
