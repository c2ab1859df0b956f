"""`seqloom generate`: text on the terminal as it is drawn, or the best texts of a beam search."""

import sys
from pathlib import Path
from typing import Any

import torch

from seqloom.core.config import read
from seqloom.face import load
from seqloom.generation.beams import Beams, beam_search
from seqloom.generation.decode import generate
from seqloom.generation.price import price
from seqloom.generation.text import pieces


def write(run: Path, prompt: str, *, step: int | None, max_tokens: int, mode: Any, hop: int, **settings: Any) -> None:
    """Prints the prompt and its continuation; the price goes to standard error."""
    model = load(run, step=step)
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    text = generate(model, prompt, max_tokens=max_tokens, mode=mode, hop=hop, **settings)
    print(prompt, end="", flush=True)
    for piece in text:
        print(piece, end="", flush=True)
    print()
    read = len(model.tokenizer.encode(prompt))
    print(f"all {max_tokens:,} tokens: {price(model, read, max_tokens, mode, hop)}", file=sys.stderr)


def write_best(
    run: Path, prompt: str, *, step: int | None, max_tokens: int, mode: Any, hop: int, **settings: Any
) -> None:
    """Prints the prompt with its likeliest continuation; of several, a line with log p and score before each."""
    given = {name: value for name, value in settings.items() if value is not None}
    beams: Beams = read(Beams, given)
    model = load(run, step=step)
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    ids = model.tokenizer.encode(prompt)
    prompts, eos = torch.tensor([ids], dtype=torch.long), model.tokenizer.eos
    (found,) = beam_search(model, prompts, max_tokens=max_tokens, beams=beams, mode=mode, hop=hop, eos=eos)
    for number, hypothesis in enumerate(found, 1):
        if beams.best > 1:
            print(f"{number}. log p {hypothesis.log_probability:.3f}, score {hypothesis.score:.3f}")
        print(prompt + "".join(pieces(hypothesis.ids, model.tokenizer, (), ids)))
    each = price(model, len(ids), max_tokens, mode, hop)
    print(f"all {max_tokens:,} tokens, in each of {beams.beams} beams: {each}", file=sys.stderr)
