"""`seqloom generate`: text on the terminal as it is drawn."""

import sys
from pathlib import Path
from typing import Any

from seqloom.cli.retrieving import neighbors_of
from seqloom.face import load
from seqloom.generation.decode import generate
from seqloom.generation.price import price


def write(
    run: Path,
    prompt: str,
    *,
    step: int | None,
    max_tokens: int,
    mode: Any,
    hop: int,
    knn: Path | None = None,
    search: str | None = None,
    **settings: Any,
) -> None:
    """Prints the prompt and its continuation; the price goes to standard error."""
    model = load(run, step=step)
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    neighbors = neighbors_of(model, knn, search)
    pieces = generate(model, prompt, max_tokens=max_tokens, mode=mode, hop=hop, neighbors=neighbors, **settings)
    print(prompt, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    read = len(model.tokenizer.encode(prompt))
    print(f"all {max_tokens:,} tokens: {price(model, read, max_tokens, mode, hop)}", file=sys.stderr)
