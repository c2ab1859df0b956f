"""`seqloom demo`: a story by each model, the table, the verdict, the report, and the next command."""

import sys
from pathlib import Path

import torch

from seqloom.cli.comparison import printed, typed
from seqloom.experiments.demo import demo
from seqloom.experiments.study import Stopped
from seqloom.face import load
from seqloom.report.answer import sentences
from seqloom.report.comparison import Comparison
from seqloom.report.page import write


def shown(out: Path, scale: str) -> int:
    """Runs the demo and prints the results; returns the exit code, of a signal if one stopped it."""
    try:
        comparison = demo(out, scale, typed())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    for contender in comparison.contenders:
        for sample in contender.samples[:1]:
            print(f"\n{contender.name}: {sample.prompt}{''.join(piece for piece, _ in sample.tokens)}")
    home, text = out / scale, comparison.text
    print(f"\n{printed(comparison)}\n")
    print(
        f"held-out loss: nats per token on {text.held_out_documents} stories that were not trained on. Guessing by the "
        f"frequency of tokens alone has {text.unigram:.3f}, and no model can have less than {text.floor:.3f} (the "
        "grammar of the stories is known).\ngrammatical: share of written sentences (top-p 0.9) that are of that "
        "grammar; agreeing: that also agree with the names and things of their story."
    )
    print("\nWhat this shows:")
    for line in [*verdict(comparison), *streaming(comparison, home)]:
        print(f"- {line}")
    print(f"\nreport: {write(home)} (open it in a browser)")
    print("next:   seqloom compare attention:heads=4 he gated_delta --data YOUR_TEXT --out runs/mine --seeds 3")
    return 0


def verdict(comparison: Comparison) -> list[str]:
    """Which model predicts best, whether that is settled, and the price of a token near and far, in a few sentences."""
    lines = sentences(comparison)
    if comparison.seeds == 1:
        lines.append("One run of each is too short to tell them apart: `--seeds 3` of compare gives intervals.")
    return lines


def streaming(comparison: Comparison, home: Path) -> list[str]:
    """How far the logits of each model, read token by token, are from those of the whole text; none without a run."""
    runs = [
        (contender.samples[0].prompt, home / contender.runs[0])
        for contender in comparison.contenders
        if contender.samples and contender.runs
    ]
    apart = [_streamed(run, prompt) for prompt, run in runs]
    if not apart:
        return []
    return [
        f"Reading token by token gives the logits of reading the whole text, within {max(apart):.1e}, in every model."
    ]


def _streamed(run: Path, prompt: str) -> float:
    model = load(run)
    assert model.tokenizer is not None
    ids = torch.tensor([model.tokenizer.encode(prompt)[: model.config.context]])
    with torch.inference_mode():
        whole, state = model(ids), model.start(1)
        apart = 0.0
        for at in range(ids.shape[1]):
            logits, state = model.step(ids[:, at], state)
            apart = max(apart, float((logits - whole[:, at]).abs().max()))
    return apart
