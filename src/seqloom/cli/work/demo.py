"""`seqloom demo`: a story by each model, the table, the verdict, the report, and the next command."""

import sys
from pathlib import Path

import torch

from seqloom.cli.work.comparison import format_comparison
from seqloom.face import load
from seqloom.report.answer import sentences
from seqloom.report.comparison import Comparison
from seqloom.report.page import write
from seqloom.studies.command import typed_command
from seqloom.studies.demo import demo
from seqloom.studies.study import Stopped


def show_demo(out: Path, scale: str) -> int:
    """Runs the demo and prints the results; returns the exit code, of a signal if one stopped it."""
    try:
        comparison = demo(out, scale, typed_command())
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    for contender in comparison.contenders:
        for sample in contender.samples[:1]:
            print(f"\n{contender.name}: {sample.prompt}{''.join(piece for piece, _ in sample.tokens)}")
    folder = out / scale
    text = comparison.text
    print(f"\n{format_comparison(comparison)}\n")
    print(
        f"held-out loss: nats per token on {text.held_out_documents} stories that were not trained on. Guessing by the "
        f"frequency of tokens alone has {text.unigram:.3f}, and no model can have less than {text.floor:.3f} (the "
        "grammar of the stories is known).\ngrammatical: share of written sentences (top-p 0.9) that are of that "
        "grammar; agreeing: that also agree with the names and things of their story."
    )
    print("\nWhat this shows:")
    for line in [*sentences(comparison), *streaming(comparison, folder)]:
        print(f"- {line}")
    print(f"\nreport: {write(folder)} (open it in a browser)")
    print("next:   seqloom compare attention:heads=4 he gated_delta --data YOUR_TEXT --out runs/mine --seeds 3")
    return 0


def streaming(comparison: Comparison, folder: Path) -> list[str]:
    """How far the logits of each model, read token by token, are from those of the whole text; none without a run."""
    runs = [
        (contender.samples[0].prompt, folder / contender.runs[0])
        for contender in comparison.contenders
        if contender.samples and contender.runs
    ]
    differences = [_streaming_difference(run, prompt) for prompt, run in runs]
    if not differences:
        return []
    largest = max(differences)
    return [f"Reading token by token gives the logits of reading the whole text, within {largest:.1e}, in every model."]


def _streaming_difference(run: Path, prompt: str) -> float:
    """The largest difference of logits between reading the prompt token by token and at once."""
    model = load(run)
    assert model.tokenizer is not None
    ids = torch.tensor([model.tokenizer.encode(prompt)[: model.config.context]])
    with torch.inference_mode():
        all_logits = model(ids)
        state = model.start(1)
        difference = 0.0
        for position in range(ids.shape[1]):
            logits, state = model.step(ids[:, position], state)
            difference = max(difference, float((logits - all_logits[:, position]).abs().max()))
    return difference
