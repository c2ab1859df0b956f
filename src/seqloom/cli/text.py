"""`seqloom generate` and `evaluate`: models and text; loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from seqloom.cli.options import COLUMN, TEXT, Knn, Run, Search, given_options, numbers

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
        typer.Option(help="compile the step of a token first; default: from 1,000 tokens on, with --mode stream"),
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
    from seqloom.cli.generation import write, write_best

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


def evaluate(
    run: Run,
    data: Annotated[
        str | None, typer.Option(help=f"the text to predict: {TEXT}, stories; for an agent episodes:ENV:POLICY")
    ] = None,
    batch: Annotated[int, typer.Option(help="windows (or episodes) computed at once", min=1)] = 64,
    stride: Annotated[
        int | None, typer.Option(help="distance between overlapping windows, in tokens; default: no overlap")
    ] = None,
    memory: Annotated[
        Literal["none", "carry"] | None,
        typer.Option(help="carry: keep the state from window to window of a document; default: as in training"),
    ] = None,
    memory_length: Annotated[
        int | None,
        typer.Option(help="with carry: tokens of memory per layer; default: as in training", min=1, max=65536),
    ] = None,
    column: Annotated[str | None, typer.Option(help=f"{COLUMN}; default: that of the run's data")] = None,
    pseudo: Annotated[
        bool, typer.Option("--pseudo", help="for an encoder: mask one token at a time and predict it from all others")
    ] = False,
    knn: Knn = None,
    search: Search = None,
    returns: Annotated[
        str | None,
        typer.Option(
            help="for a Decision Transformer that reads a return, in place of --data: target returns to play for, "
            "e.g. 50,200,500"
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(help="episodes to play per return, or in all where the model reads no return (20)", min=1),
    ] = None,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object, which has the loss by position too")
    ] = False,
) -> None:
    """Scores a model on a text: loss in nats per token, perplexity, bits per byte; every token is predicted once.

    An agent is scored on --data episodes:ENV:POLICY, or plays: with --returns if it reads a return
    (decision/cartpole), else with --episodes or no option (decision/maze, and any run with model.returns=none).
    """
    options: dict[str, Any] = {"stride": stride, "memory": memory, "memory_length": memory_length}
    options |= {"column": column, "pseudo": pseudo, "knn": knn, "search": search}
    text_options = given_options({**options, "pseudo": pseudo or None})
    play = returns is not None or episodes is not None
    if play:
        unused = given_options({"data": data}) | text_options
        if unused:
            option = "--episodes" if returns is None else "--returns"
            raise ValueError(f"{option} plays episodes: leave out --{next(iter(unused)).replace('_', '-')}")
    from seqloom.cli.episodes import acts, played, plays_unasked, scored_on_episodes

    play = play or (data is None and plays_unasked(run))
    if text_options and (play or (data is not None and acts(run))):
        name = next(iter(text_options)).replace("_", "-")
        raise ValueError(f"--{name} is for text, but {run} plays episodes: leave it out")
    if play:
        target_returns = None if returns is None else numbers("--returns", returns, "50,200,500")
        print(played(run, target_returns, 20 if episodes is None else episodes, batch, step, as_json))
        return
    if data is None:
        raise ValueError("Missing option '--data': a text; a Decision Transformer may have --returns instead")
    if acts(run):
        print(scored_on_episodes(run, data, batch, step, as_json))
        return
    from seqloom.cli.scores import scored

    print(scored(run, data, batch=batch, **options, step=step, as_json=as_json))
