"""`seqloom generate`: text on the terminal as it is drawn, or the best texts of a beam search."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from seqloom.cli.decoding import decoding, refuse
from seqloom.core.config import read
from seqloom.core.model import Model, require_generates
from seqloom.core.shapes import Ids
from seqloom.face import load
from seqloom.generation.beams import Beams, Hypothesis, beam_search
from seqloom.generation.decode import generate
from seqloom.generation.exits import compared
from seqloom.generation.price import price
from seqloom.generation.sample import Sampling
from seqloom.generation.text import check_stop, pieces
from seqloom.generation.translation import translate, translate_best


def write(
    run: Path,
    prompt: str,
    *,
    step: int | None,
    max_tokens: int,
    mode: Any,
    hop: int,
    ways: Mapping[str, Any],
    **drawing: Any,
) -> None:
    """Prints the prompt and its continuation, or the target to a source; the price goes to standard error."""
    model = _with_tokenizer(run, step)
    if model.config.objective == "pairs":
        refuse(ways, "leave it out of a translation")
        _write_target(model, _source(model, prompt, mode, hop), max_tokens, **drawing)
        return
    chosen = decoding(model, ways, max_tokens)
    text = generate(model, prompt, max_tokens=max_tokens, mode=mode, hop=hop, **chosen, **drawing)
    print(prompt, end="", flush=True)
    written = []
    for piece in text:
        print(piece, end="", flush=True)
        written.append(piece)
    print()
    if chosen["exits"] is not None:
        print(compared(model, chosen["exits"], prompt, "".join(written)), file=sys.stderr)
    elif chosen["draft"] is not None:
        print(chosen["draft"], file=sys.stderr)
    else:
        length = len(model.tokenizer.encode(prompt))
        print(f"all {max_tokens:,} tokens: {price(model, length, max_tokens, mode, hop)}", file=sys.stderr)


def write_best(
    run: Path, prompt: str, *, step: int | None, max_tokens: int, mode: Any, hop: int, **settings: Any
) -> None:
    """Prints the prompt with its likeliest continuation; of several, a line with log p and score before each."""
    given = {name: value for name, value in settings.items() if value is not None}
    beams: Beams = read(Beams, given)
    model = _with_tokenizer(run, step)
    eos = model.tokenizer.eos
    if model.config.objective == "pairs":
        source = _source(model, prompt, mode, hop)
        (found,) = translate_best(model, source, max_tokens=max_tokens, beams=beams, eos=eos)
        _print_best(found, beams.best, lambda ids: "".join(pieces(ids, model.tokenizer)))
        return
    ids = model.tokenizer.encode(prompt)
    prompts = torch.tensor([ids], dtype=torch.long)
    (found,) = beam_search(model, prompts, max_tokens=max_tokens, beams=beams, mode=mode, hop=hop, eos=eos)
    _print_best(found, beams.best, lambda more: prompt + "".join(pieces(more, model.tokenizer, (), ids)))
    each = price(model, len(ids), max_tokens, mode, hop)
    print(f"all {max_tokens:,} tokens, in each of {beams.beams} beams: {each}", file=sys.stderr)


def _write_target(
    model: Model, source: Ids, max_tokens: int, *, stop: Sequence[str], seed: int, **settings: Any
) -> None:
    """Prints the target to a source, drawn."""
    check_stop(stop)
    sampling: Sampling = read(Sampling, settings)
    eos = model.tokenizer.eos
    (ids,) = translate(model, source, eos=eos, max_tokens=max_tokens, sampling=sampling, seed=seed)
    print("".join(pieces(ids, model.tokenizer, stop)))


def _with_tokenizer(run: Path, step: int | None) -> Model:
    model = load(run, step=step)
    if model.tokenizer is None:
        if model.config.objective != "pairs":
            require_generates(model)
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    return model


def _source(model: Model, text: str, mode: str, hop: int) -> Ids:
    """A text as the source (1, S) of a model that translates. ValueError for options of a text that is gone on with."""
    if mode != "slide" or hop != 1:
        option = "--hop" if hop != 1 else "--mode"
        raise ValueError(f"a source is read once, and its target from a state: leave {option} out")
    if not text:
        raise ValueError("the source is empty: give at least one character")
    return torch.tensor([[*model.tokenizer.encode(text), model.tokenizer.eos]], dtype=torch.long)


def _print_best(found: Sequence[Hypothesis], best: int, text: Callable[[list[int]], str]) -> None:
    """Prints each text; where several were asked for, after a line with its log p and score."""
    for number, hypothesis in enumerate(found, 1):
        if best > 1:
            print(f"{number}. log p {hypothesis.log_probability:.3f}, score {hypothesis.score:.3f}")
        print(text(hypothesis.ids))
