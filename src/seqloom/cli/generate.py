"""`seqloom generate`: the options, and which of them go together; loads nothing heavy before it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import Knn, Run, Search, given_options

DRAWING: dict[str, Any] = {
    **{"stop": [], "temperature": 1.0, "top_k": None, "top_p": None, "min_p": None, "seed": 0},
    **{"repetition_penalty": 1.0, "presence_penalty": 0.0},
}
"""the options of drawing, with their defaults"""
NEEDS = {
    ("best", "length_penalty"): ("beams", "a beam search: add --beams, e.g. --beams 4"),
    ("drafts", "confidence", "take_back"): ("draft", "a draft model: add --draft RUN, or leave it out"),
    ("search",): ("knn", "a store: add --knn, or leave it out"),
}
"""options that say nothing without another: that one, and what the error says"""


def generate(
    run: Run,
    prompt: Annotated[list[str], typer.Argument(help="the prompt, or several; the source of an encoder-decoder")],
    max_tokens: Annotated[int, typer.Option(help="largest number of tokens to generate")] = 200,
    temperature: Annotated[float, typer.Option(help="divides the logits; 0 takes the most probable token")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="sample from the k most probable tokens")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="sample from the most probable tokens, up to probability p")
    ] = None,
    min_p: Annotated[
        float | None, typer.Option(help="sample from the tokens of at least this share of the largest probability")
    ] = None,
    repetition_penalty: Annotated[
        float, typer.Option(help="divides positive logits of the tokens so far, prompt included; 1 for none")
    ] = 1.0,
    presence_penalty: Annotated[
        float, typer.Option(help="is subtracted from the logits of the tokens written so far")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="the same seed gives the same text")] = 0,
    samples: Annotated[
        int, typer.Option(help="texts for each prompt, with the seeds from --seed on, written side by side", min=1)
    ] = 1,
    stop: Annotated[list[str] | None, typer.Option(help="stop before this text; may be repeated")] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="slide: read the full window again for each token (the paper); stream: read on from a state; default: "
            "stream where every layer reads on for any length and positions are not learned"
        ),
    ] = None,
    hop: Annotated[int, typer.Option(help="with slide: tokens dropped at once from a full window (the paper: 1)")] = 1,
    beams: Annotated[int | None, typer.Option(help="beam search with this many beams, in place of sampling")] = None,
    best: Annotated[int | None, typer.Option(help="with --beams: number of texts to print, best first")] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(help="with --beams: 0 ranks by probability, more favors longer texts (0.6)"),
    ] = None,
    knn: Knn = None,
    search: Search = None,
    draft: Annotated[
        Path | None,
        typer.Option(help="a small run with the same tokenizer that proposes tokens (speculative sampling)"),
    ] = None,
    drafts: Annotated[int | None, typer.Option(help="with --draft: most tokens proposed at once (4)", min=1)] = None,
    confidence: Annotated[
        float | None, typer.Option(help="with --draft: propose while its top probability is at least this (Big-Little)")
    ] = None,
    take_back: Annotated[
        float | None,
        typer.Option(help="with --draft: accept tokens up to this loss in nats of the large model (Big-Little)"),
    ] = None,
    exit_at: Annotated[
        float | None,
        typer.Option("--exit", help="skip the later layers of a token at this confidence, from 0 to 1 (CALM)"),
    ] = None,
    exit_by: Annotated[
        str | None,
        typer.Option(
            help="confidence: softmax (difference of the two largest probabilities, the default), state (cosine "
            "between a layer's input and output), or a folder of `seqloom study exits`"
        ),
    ] = None,
    exit_from: Annotated[int | None, typer.Option(help="first layer after which a token may exit", min=1)] = None,
    compile: Annotated[
        bool | None,
        typer.Option(help="compile the step of a token first; default: from 10,000 tokens on, with --mode stream"),
    ] = None,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
) -> None:
    """Continues a prompt, by sampling (printed token by token) or by beam search; or writes the target of a source.

    Of several texts each is printed below a line with its number and seed.
    """
    given: dict[str, Any] = {**locals(), "stop": stop or [], "exit": exit_at}
    drawing = {name: given[name] for name in DRAWING}
    names = ("beams", "best", "length_penalty", "knn", "search", "draft", "drafts", "confidence", "take_back")
    options = given_options({name: given[name] for name in (*names, "exit", "exit_by", "exit_from", "compile")})
    require_together(options, [name for name, default in DRAWING.items() if drawing[name] != default])
    several = len(prompt) > 1 or samples > 1
    if several and options:
        raise ValueError(f"{_flag(next(iter(options)))} writes one text: give one prompt, without --samples")
    from seqloom.cli.work.generation import write, write_best, write_several

    reading: dict[str, Any] = {"max_tokens": max_tokens, "mode": mode, "hop": hop}
    if several:
        write_several(run, prompt, step, reading, {**drawing, "samples": samples})
    elif beams is not None:
        write_best(run, prompt[0], step, reading, options)
    else:
        write(run, prompt[0], step, reading, options, drawing)


def require_together(options: dict[str, Any], drawing: list[str]) -> None:
    """ValueError where options say nothing without another, or a beam search has options of another way to write."""
    for names, (needed, advice) in NEEDS.items():
        alone = [name for name in names if name in options and needed not in options]
        if alone:
            raise ValueError(f"{_flag(alone[0])} needs {advice}")
    others = [*drawing, *(name for name in options if name not in ("beams", "best", "length_penalty"))]
    if "beams" in options and others:
        raise ValueError(f"a beam search does not sample and ends at <eos>: leave out {_flag(others[0])} or --beams")


def _flag(name: str) -> str:
    """The option as it is typed."""
    return f"--{name.replace('_', '-')}"
