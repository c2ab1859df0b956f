"""`seqloom generate`: text on the terminal as it is drawn, or the best texts of a beam search."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from seqloom.cli.options import exit_measure
from seqloom.cli.work.retrieval import neighbors_of
from seqloom.core.config import read
from seqloom.core.model import Model, require_generates
from seqloom.core.shapes import Ids
from seqloom.depth.classifier import Classifier
from seqloom.face import load
from seqloom.generation.beams import Beams, Hypothesis, beam_search
from seqloom.generation.decode import generate
from seqloom.generation.drafting import Draft
from seqloom.generation.exits import Exits, compared
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
    decoding: Mapping[str, Any],
    **drawing: Any,
) -> None:
    """Prints the prompt and its continuation, or the target to a source; the price goes to standard error."""
    model = _with_tokenizer(run, step)
    if model.config.objective == "pairs":
        _refuse(decoding, "leave it out for an encoder-decoder")
        _write_target(model, _source(model, prompt, mode, hop), max_tokens, **drawing)
        return
    extensions = _decoding(model, decoding, max_tokens)
    text = generate(model, prompt, max_tokens=max_tokens, mode=mode, hop=hop, **extensions, **drawing)
    print(prompt, end="", flush=True)
    new_pieces = []
    for piece in text:
        print(piece, end="", flush=True)
        new_pieces.append(piece)
    print()
    if extensions["exits"] is not None:
        print(compared(model, extensions["exits"], prompt, "".join(new_pieces)), file=sys.stderr)
    elif extensions["draft"] is not None:
        print(extensions["draft"], file=sys.stderr)
    else:
        length = len(model.tokenizer.encode(prompt))
        print(f"all {max_tokens:,} tokens: {price(model, length, max_tokens, mode, hop)}", file=sys.stderr)


def write_best(
    run: Path, prompt: str, *, step: int | None, max_tokens: int, mode: Any, hop: int, **settings: Any
) -> None:
    """Prints the prompt with its likeliest continuation; of several, a line with log p and score before each."""
    options = {name: value for name, value in settings.items() if value is not None}
    beams: Beams = read(Beams, options)
    model = _with_tokenizer(run, step)
    eos = model.tokenizer.eos
    if model.config.objective == "pairs":
        source = _source(model, prompt, mode, hop)
        (hypotheses,) = translate_best(model, source, max_tokens=max_tokens, beams=beams, eos=eos)
        _print_best(hypotheses, beams.best, lambda ids: "".join(pieces(ids, model.tokenizer)))
        return
    ids = model.tokenizer.encode(prompt)
    prompts = torch.tensor([ids], dtype=torch.long)
    (hypotheses,) = beam_search(model, prompts, max_tokens=max_tokens, beams=beams, mode=mode, hop=hop, eos=eos)
    _print_best(hypotheses, beams.best, lambda new: prompt + "".join(pieces(new, model.tokenizer, (), ids)))
    per_beam = price(model, len(ids), max_tokens, mode, hop)
    print(
        f"at most {max_tokens:,} tokens in each of {beams.beams} beams; a beam of all {max_tokens:,} {per_beam}",
        file=sys.stderr,
    )


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


def _source(model: Model, text: str, mode: str | None, hop: int) -> Ids:
    """A text as the source (1, S) of a model that translates. ValueError for options of a prompt that is continued."""
    if mode is not None or hop != 1:
        option = "--hop" if hop != 1 else "--mode"
        raise ValueError(f"an encoder-decoder reads the source once and generates from a state: leave out {option}")
    if not text:
        raise ValueError("the source is empty: give at least one character")
    return torch.tensor([[*model.tokenizer.encode(text), model.tokenizer.eos]], dtype=torch.long)


def _print_best(hypotheses: Sequence[Hypothesis], best: int, text: Callable[[list[int]], str]) -> None:
    """Prints each text; where several were asked for, after a line with its log p and score."""
    for number, hypothesis in enumerate(hypotheses, 1):
        if best > 1:
            print(f"{number}. log p {hypothesis.log_probability:.3f}, score {hypothesis.score:.3f}")
        print(text(hypothesis.ids))


def _decoding(model: Model, options: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """The arguments `neighbors`, `draft`, `exits` and `compile` of `generate`, from the options of the command line."""
    return {
        "neighbors": neighbors_of(model, options.get("knn"), options.get("search")),
        "draft": _draft(options),
        "exits": _exits(model, options, max_tokens),
        "compile": options.get("compile"),
    }


def _refuse(options: Mapping[str, Any], reason: str) -> None:
    """ValueError where the command line has one of these options."""
    for name in options:
        raise ValueError(f"--{name.replace('_', '-')} needs a prompt that is continued: {reason}")


def _draft(options: Mapping[str, Any]) -> Draft | None:
    """The draft model of `--draft`. ValueError where options of a draft are given without it."""
    settings = {name: options[name] for name in ("drafts", "confidence", "take_back") if name in options}
    if "draft" not in options:
        for name in settings:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} needs a draft model: add --draft RUN, or leave it out")
        return None
    if "drafts" in settings:
        settings["tokens"] = settings.pop("drafts")
    return Draft(load(options["draft"]), **settings)


def _exits(model: Model, options: Mapping[str, Any], max_tokens: int) -> Exits | None:
    """When layers are left out; ValueError for a measure without its threshold."""
    if not {"exit", "exit_by", "exit_from"} & set(options):
        return None
    by = exit_measure(model, options.get("exit_by", "softmax"))
    if "exit" not in options and not isinstance(by, Classifier):
        option = "--exit-by" if "exit_by" in options else "--exit-from"
        raise ValueError(f"{option} needs a threshold: add --exit, or leave it out")
    return Exits(options.get("exit"), by, most=max(max_tokens, 1), first=options.get("exit_from", 1))
