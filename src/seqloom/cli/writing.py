"""`seqloom generate`: text on the terminal as it is drawn."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seqloom.cli.retrieving import neighbors_of
from seqloom.face import load
from seqloom.generation.decode import generate
from seqloom.generation.drafting import Draft
from seqloom.generation.exits import Exits, compared
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
    draft: Path | None = None,
    drafting: Mapping[str, Any] | None = None,
    exiting: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Prints the prompt and its continuation; the price goes to standard error."""
    model = load(run, step=step)
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    neighbors = neighbors_of(model, knn, search)
    small = _draft(draft, drafting or {})
    exits = _exits(exiting or {}, max_tokens)
    how: dict[str, Any] = {"max_tokens": max_tokens, "mode": mode, "hop": hop, "neighbors": neighbors, "draft": small}
    pieces = generate(model, prompt, exits=exits, **how, **settings)
    print(prompt, end="", flush=True)
    written = []
    for piece in pieces:
        print(piece, end="", flush=True)
        written.append(piece)
    print()
    if exits is not None:
        print(compared(model, exits, prompt, "".join(written)), file=sys.stderr)
        return
    if small is not None:
        print(small, file=sys.stderr)
        return
    read = len(model.tokenizer.encode(prompt))
    print(f"all {max_tokens:,} tokens: {price(model, read, max_tokens, mode, hop)}", file=sys.stderr)


def _exits(settings: Mapping[str, Any], most: int) -> Exits | None:
    """When layers are left out; ValueError for its settings without a threshold."""
    given = {name: value for name, value in settings.items() if value is not None}
    if "threshold" not in given:
        if given:
            raise ValueError("--exit-by is how sure a token is where layers are left out: give --exit, or leave it out")
        return None
    return Exits(**given, most=max(most, 1))


def _draft(run: Path | None, settings: Mapping[str, Any]) -> Draft | None:
    """The draft model of a run; ValueError for its settings without it."""
    given = {name: value for name, value in settings.items() if value is not None}
    if run is None:
        if given:
            option = {"tokens": "--drafts", "take_back": "--take-back"}.get(next(iter(given)), "--confidence")
            raise ValueError(f"{option} is of a model that writes ahead: give --draft RUN, or leave it out")
        return None
    return Draft(load(run), **given)
