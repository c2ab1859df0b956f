"""`seqloom generate`: the options, and which of them go together; loads nothing heavy before it runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import Knn, Run, Search, given_options

DRAWING_DEFAULTS = {"stop": [], "temperature": 1.0, "top_k": None, "top_p": None, "seed": 0}
"""the defaults of the options of drawing"""


def generate(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="the prompt, or the source of an encoder-decoder")],
    max_tokens: Annotated[int, typer.Option(help="largest number of tokens to generate")] = 200,
    temperature: Annotated[float, typer.Option(help="divides the logits; 0 takes the most probable token")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="sample from the k most probable tokens")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="sample from the most probable tokens, up to probability p")
    ] = None,
    seed: Annotated[int, typer.Option(help="the same seed gives the same text")] = 0,
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
    """Continues a prompt, by sampling (printed token by token) or by beam search; or writes the target of a source."""
    searching: dict[str, Any] = {"beams": beams, "best": best, "length_penalty": length_penalty}
    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    decoding = given_options(
        {
            "knn": knn,
            "search": search,
            "draft": draft,
            "drafts": drafts,
            "confidence": confidence,
            "take_back": take_back,
            "exit": exit_at,
            "exit_by": exit_by,
            "exit_from": exit_from,
            "compile": compile,
        }
    )
    drawing: dict[str, Any] = {"stop": stop or [], **sampling}
    changed = {name: value for name, value in drawing.items() if value != DRAWING_DEFAULTS[name]}
    require_one_way(searching, changed | decoding)
    from seqloom.cli.work.generation import write, write_best

    common: dict[str, Any] = {"step": step, "max_tokens": max_tokens, "mode": mode, "hop": hop}
    if beams is not None:
        write_best(run, prompt, **common, **searching)
        return
    write(run, prompt, **common, decoding=decoding, **drawing)


def require_one_way(searching: dict[str, Any], drawing: dict[str, Any]) -> None:
    """ValueError where options of a beam search are given without one, or next to options of drawing."""
    beam_options = [f"--{name.replace('_', '-')}" for name in given_options(searching)]
    if beam_options and searching["beams"] is None:
        raise ValueError(f"{beam_options[0]} needs a beam search: add --beams, e.g. --beams 4")
    if beam_options and drawing:
        option = f"--{next(iter(drawing)).replace('_', '-')}"
        raise ValueError(f"a beam search does not sample and ends at <eos>: leave out {option} or --beams")
