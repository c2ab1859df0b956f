"""`seqloom generate` and `evaluate`: models and text; loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from seqloom.cli.options import TEXT, Knn, Run, Search, given_of, numbers

NOTHING_DRAWN = {"stop": [], "temperature": 1.0, "top_k": None, "top_p": None, "seed": 0}
"""the defaults of the options of drawing"""


def generate(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="the text to go on from, or the source of one that translates")],
    max_tokens: Annotated[int, typer.Option(help="tokens to write at most")] = 200,
    temperature: Annotated[float, typer.Option(help="below 1 sharpens the choice; 0 takes the likeliest")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="choose among the k likeliest tokens")] = None,
    top_p: Annotated[float | None, typer.Option(help="choose among the likeliest tokens that hold p together")] = None,
    seed: Annotated[int, typer.Option(help="the same seed gives the same text")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="end before this text appears; may be given again")] = None,
    mode: Annotated[str, typer.Option(help="slide: the window is read again (the paper); stream: read once")] = "slide",
    hop: Annotated[int, typer.Option(help="in slide: tokens that a full window drops at once; 1 is the paper")] = 1,
    beams: Annotated[
        int | None, typer.Option(help="search the likeliest text with so many beams; nothing is drawn")
    ] = None,
    best: Annotated[int | None, typer.Option(help="of a beam search: print so many texts, the best first")] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(help="of a beam search: 0 ranks by probability; 0.6 unless given favors longer texts"),
    ] = None,
    knn: Knn = None,
    search: Search = None,
    draft: Annotated[
        Path | None,
        typer.Option(help="a small run of the same tokenizer, which writes ahead; the law of the text stays"),
    ] = None,
    drafts: Annotated[
        int | None, typer.Option(help="tokens that it writes ahead at most; 4 unless given", min=1)
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="it stops ahead where its likeliest token has less probability (Big-Little)")
    ] = None,
    take_back: Annotated[
        float | None, typer.Option(help="its tokens stay up to so many nats under the large model (Big-Little)")
    ] = None,
    exit_at: Annotated[
        float | None,
        typer.Option("--exit", help="leave out later layers where a token is this sure, from 0 to 1 (CALM)"),
    ] = None,
    exit_by: Annotated[
        str | None,
        typer.Option(
            help="how sure: softmax, the gap of the two likeliest (default), state, its cosine, or what `seqloom study "
            "exits` has learned, by its folder"
        ),
    ] = None,
    exit_from: Annotated[int | None, typer.Option(help="leave out no layer up to this one", min=1)] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
) -> None:
    """Writes on from a prompt, as it is drawn; or the likeliest text of a beam search."""
    searching: dict[str, Any] = {"beams": beams, "best": best, "length_penalty": length_penalty}
    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    decoding = given_of(
        {
            **{"knn": knn, "search": search, "draft": draft, "drafts": drafts, "confidence": confidence},
            **{"take_back": take_back, "exit": exit_at, "exit_by": exit_by},
            "exit_from": exit_from,
        }
    )
    drawing: dict[str, Any] = {"stop": stop or [], **sampling}
    changed = {name: value for name, value in drawing.items() if value != NOTHING_DRAWN[name]}
    require_one_way(searching, changed | decoding)
    from seqloom.cli.generation import write, write_best

    how: dict[str, Any] = {"step": step, "max_tokens": max_tokens, "mode": mode, "hop": hop}
    if beams is not None:
        write_best(run, prompt, **how, **searching)
        return
    write(run, prompt, **how, decoding=decoding, **drawing)


def require_one_way(searching: dict[str, Any], drawing: dict[str, Any]) -> None:
    """ValueError where options of a beam search are given without one, or next to options of drawing."""
    given = [f"--{name.replace('_', '-')}" for name in given_of(searching)]
    if given and searching["beams"] is None:
        raise ValueError(f"{given[0]} is of a beam search: give --beams too, as --beams 4")
    if given and drawing:
        option = f"--{next(iter(drawing)).replace('_', '-')}"
        raise ValueError(f"a beam search draws nothing and ends at <eos>: leave out {option}, or --beams")


def evaluate(
    run: Run,
    data: Annotated[str | None, typer.Option(help=f"the text to predict: {TEXT}, stories")] = None,
    batch: Annotated[int, typer.Option(help="windows read, or episodes played, at once", min=1)] = 64,
    stride: Annotated[
        int | None, typer.Option(help="let windows overlap, each this many tokens after the one before it")
    ] = None,
    memory: Annotated[
        Literal["none", "carry"] | None,
        typer.Option(help="carry: read each document on with its state; as the run was trained unless given"),
    ] = None,
    memory_length: Annotated[
        int | None,
        typer.Option(help="with carry: tokens before its own that each layer reads, not as trained", min=1, max=65536),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="the column or field of the text; that of the run's own data unless given")
    ] = None,
    pseudo: Annotated[
        bool, typer.Option("--pseudo", help="of an encoder: each token masked alone and predicted from all others")
    ] = False,
    knn: Knn = None,
    search: Search = None,
    returns: Annotated[
        str | None,
        typer.Option(help="of a model that acts: returns to ask for, as 50,200,500; it plays, in place of --data"),
    ] = None,
    episodes: Annotated[int | None, typer.Option(help="played for each return; 20 unless given", min=1)] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object, with the loss by position")] = False,
) -> None:
    """Scores a model on a text: loss in nats a token, perplexity, bits a byte; every token is predicted once.

    A model that acts (decision/cartpole) is scored on --data episodes:ENV:POLICY, or plays with --returns.
    """
    options: dict[str, Any] = {"stride": stride, "memory": memory, "memory_length": memory_length}
    options |= {"column": column, "pseudo": pseudo, "knn": knn, "search": search}
    if returns is not None:
        idle = given_of({"data": data, **options, "pseudo": pseudo or None})
        if idle:
            raise ValueError(f"--returns plays episodes: leave --{next(iter(idle)).replace('_', '-')} out")
        from seqloom.cli.episodes import played

        asked = numbers("--returns", returns, "50,200,500")
        print(played(run, asked, 20 if episodes is None else episodes, batch, step, as_json))
        return
    if episodes is not None:
        raise ValueError("--episodes are played to reach a return: give --returns too, as --returns 50,200,500")
    if data is None:
        raise ValueError("Missing option '--data': a text; or --returns, where the model acts")
    from seqloom.cli.episodes import acts, scored_on_episodes

    if acts(run):
        idle = given_of({**options, "pseudo": pseudo or None})
        if idle:
            raise ValueError(f"--{next(iter(idle)).replace('_', '-')} is of text, and {run} acts: leave it out")
        print(scored_on_episodes(run, data, batch, step, as_json))
        return
    from seqloom.cli.scores import scored

    print(scored(run, data, batch=batch, **options, step=step, as_json=as_json))
