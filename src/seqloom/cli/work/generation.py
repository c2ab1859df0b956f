"""`seqloom generate`: text on the terminal as it is drawn, or the best texts of a beam search."""

import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from seqloom.cli.options import exit_measure
from seqloom.core.config import read
from seqloom.core.model import Model, require_generates
from seqloom.core.seeds import LIMIT
from seqloom.core.shapes import Ids
from seqloom.depth.classifier import Classifier
from seqloom.face import load
from seqloom.generation.beams import Beams, Hypothesis, beam_search
from seqloom.generation.decode import generate
from seqloom.generation.drafting import Draft
from seqloom.generation.exits import Exits
from seqloom.generation.price import price
from seqloom.generation.sample import Sampling
from seqloom.generation.several import generate_texts
from seqloom.generation.text import check_stop, pieces
from seqloom.generation.translation import translate, translate_best
from seqloom.generation.ways import Way
from seqloom.retrieval.neighbors import Retrieval


def write(
    run: Path, prompt: str, step: int | None, reading: dict[str, Any], options: dict[str, Any], drawing: dict[str, Any]
) -> None:
    """Prints the prompt and its continuation, or the target to a source; the price goes to standard error."""
    model = _with_tokenizer(run, step)
    stop = drawing.pop("stop")
    sampling: Sampling = read(Sampling, drawing)
    if model.config.objective == "pairs":
        for name in options:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} needs a prompt that is continued: leave it out for an encoder-decoder")
        _write_target(model, _source(model, prompt, reading), reading["max_tokens"], stop, sampling)
        return
    compile = options.pop("compile", None)
    ways = [sampling, *_ways(model, options, reading["max_tokens"])]
    text = generate(model, prompt, *ways, stop=stop, compile=compile, **reading)
    print(prompt, end="", flush=True)
    new_pieces = []
    for piece in text:
        print(piece, end="", flush=True)
        new_pieces.append(piece)
    print()
    if text.counts is not None:
        print(text.counts.report(prompt, "".join(new_pieces)), file=sys.stderr)
        return
    cost = price(model, len(model.tokenizer.encode(prompt)), **reading)
    print(f"all {reading['max_tokens']:,} tokens: {cost}", file=sys.stderr)


def write_several(
    run: Path, prompts: Sequence[str], step: int | None, reading: dict[str, Any], drawing: dict[str, Any]
) -> None:
    """Prints each prompt with its continuations, which are written side by side; a line with the seed before each."""
    model = _with_tokenizer(run, step)
    if model.config.objective == "pairs":
        raise ValueError("an encoder-decoder writes one target: give one source, without --samples")
    texts = generate_texts(model, prompts, **reading, **drawing)
    numbers = itertools.count(1)
    for prompt, continuations in zip(prompts, texts, strict=True):
        for sample, text in enumerate(continuations):
            print(f"{next(numbers)}. seed {(drawing['seed'] + sample) % LIMIT}\n{prompt}{text}")


def write_best(run: Path, prompt: str, step: int | None, reading: dict[str, Any], options: dict[str, Any]) -> None:
    """Prints the prompt with its likeliest continuation; of several, a line with log p and score before each."""
    beams: Beams = read(Beams, options)
    model = _with_tokenizer(run, step)
    max_tokens = reading["max_tokens"]
    eos = model.tokenizer.eos
    if model.config.objective == "pairs":
        source = _source(model, prompt, reading)
        (hypotheses,) = translate_best(model, source, max_tokens=max_tokens, beams=beams, eos=eos)
        _print_best(hypotheses, beams.best, lambda ids: "".join(pieces(ids, model.tokenizer)))
        return
    ids = model.tokenizer.encode(prompt)
    (hypotheses,) = beam_search(model, torch.tensor([ids], dtype=torch.long), beams=beams, eos=eos, **reading)
    _print_best(hypotheses, beams.best, lambda new: prompt + "".join(pieces(new, model.tokenizer, (), ids)))
    per_beam = price(model, len(ids), **reading)
    print(
        f"at most {max_tokens:,} tokens in each of {beams.beams} beams; a beam of all {max_tokens:,} {per_beam}",
        file=sys.stderr,
    )


def _write_target(model: Model, source: Ids, max_tokens: int, stop: Sequence[str], sampling: Sampling) -> None:
    """Prints the target to a source, drawn."""
    check_stop(stop)
    (ids,) = translate(model, source, eos=model.tokenizer.eos, max_tokens=max_tokens, sampling=sampling)
    print("".join(pieces(ids, model.tokenizer, stop)))


def _with_tokenizer(run: Path, step: int | None) -> Model:
    model = load(run, step=step)
    if model.tokenizer is None:
        if model.config.objective != "pairs":
            require_generates(model)
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    return model


def _source(model: Model, text: str, reading: dict[str, Any]) -> Ids:
    """A text as the source (1, S) of a model that translates. ValueError for options of a prompt that is continued."""
    if reading["mode"] is not None or reading["hop"] != 1:
        option = "--hop" if reading["hop"] != 1 else "--mode"
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


def _ways(model: Model, options: dict[str, Any], max_tokens: int) -> list[Way]:
    """The values by which a text is written besides a Sampling, from the options of the command line."""
    ways: list[Way] = []
    if "knn" in options:
        ways.append(read(Retrieval, {"store": options["knn"], "search": options.get("search")}))
    if "draft" in options:
        settings: dict[str, Any] = {name: options[name] for name in ("confidence", "take_back") if name in options}
        settings |= {"tokens": options["drafts"]} if "drafts" in options else {}
        ways.append(read(Draft, {"model": load(options["draft"]), **settings}))
    if {"exit", "exit_by", "exit_from"} & set(options):
        ways.append(_exits(model, options, max_tokens))
    return ways


def _exits(model: Model, options: dict[str, Any], max_tokens: int) -> Exits:
    """When layers are left out; ValueError for a measure without its threshold."""
    by = exit_measure(model, options.get("exit_by", "softmax"))
    if "exit" not in options and not isinstance(by, Classifier):
        option = "--exit-by" if "exit_by" in options else "--exit-from"
        raise ValueError(f"{option} needs a threshold: add --exit, or leave it out")
    settings = {"threshold": options.get("exit"), "most": max(max_tokens, 1), "first": options.get("exit_from", 1)}
    exits: Exits = read(Exits, {"by": by, **settings})
    return exits
