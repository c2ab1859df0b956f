"""The commands. Each imports what it needs when it runs, so that `--help` answers without loading torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from seqloom.cli.bench import bench
from seqloom.cli.board import board
from seqloom.cli.compare import compare
from seqloom.cli.extrapolate import extrapolate
from seqloom.cli.folder import folder
from seqloom.cli.mixers import list_mixers
from seqloom.cli.paper import paper
from seqloom.cli.recall import recall
from seqloom.cli.train import TEXT, train
from seqloom.cli.verify import verify

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Can self-attention be replaced, with what, and at what price? Every command takes --debug, "
    "and --try-anyway where it needs more memory than there is.",
)


def _version(asked: bool) -> None:
    if asked:
        from seqloom.cli.environment import versions

        print(versions())
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="seqloom, torch, device, native code")
    ] = False,
) -> None:
    """Holds the options of `seqloom` itself; the help is the app's."""
    from seqloom.core.launch import size

    if size() > 1 and context.invoked_subcommand != "train":
        raise typer.BadParameter(f"torchrun starts {size()} processes, and only `seqloom train` shares its work")


Run = Annotated[Path, typer.Argument(help="the folder of a run: the --out of its training")]
Options = {"allow_extra_args": True, "ignore_unknown_options": True}


def settings(
    path: Annotated[str | None, typer.Argument(help="as training, training.lr, she, or a part of a name")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Every setting of a run with type, bounds, default and meaning; or those of a path, a mixer or a name."""
    from seqloom.cli.settings_tree import settings as shown

    print(shown(path, as_json=as_json))


def cost(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="a mixer, or a preset for its whole model; a mixer's fields are options")],
) -> None:
    """The price of a mixer: `seqloom cost attention --dim 128 --context 128 --heads 32 [--tokens T] [--per token]`.

    The equation in the paper's conventions next to the operations that its fast path executes. A preset prices its
    whole model, in training, prefill and for one more token; `--set` changes its settings. `seqloom cost --all --sort
    total` prices it with every mixer in turn.
    """
    from seqloom.cli.priced import wanted

    asked = wanted(kind, context.args)
    from seqloom.cli.pricing import price

    print(price(asked))


def generate(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="the text to go on from")],
    max_tokens: Annotated[int, typer.Option(help="tokens to write at most")] = 200,
    temperature: Annotated[float, typer.Option(help="below 1 sharpens the choice; 0 takes the likeliest")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="choose among the k likeliest tokens")] = None,
    top_p: Annotated[float | None, typer.Option(help="choose among the likeliest tokens that hold p together")] = None,
    seed: Annotated[int, typer.Option(help="the same seed gives the same text")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="end before this text appears; may be given again")] = None,
    mode: Annotated[str, typer.Option(help="slide: the window is read again (the paper); stream: read once")] = "slide",
    hop: Annotated[int, typer.Option(help="in slide: tokens that a full window drops at once; 1 is the paper")] = 1,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
) -> None:
    """Writes on from a prompt, as it is drawn."""
    from seqloom.cli.writing import write

    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    write(run, prompt, step=step, max_tokens=max_tokens, stop=stop or [], mode=mode, hop=hop, **sampling)


def evaluate(
    run: Run,
    data: Annotated[str, typer.Option(help=f"the text to predict: {TEXT}, stories")],
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    stride: Annotated[
        int | None, typer.Option(help="let windows overlap, each this many tokens after the one before it")
    ] = None,
    memory: Annotated[
        Literal["none", "carry"] | None,
        typer.Option(help="carry: read each document on with its state; as the run was trained unless given"),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="the column or field of the text; that of the run's own data unless given")
    ] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object, with the loss by position")] = False,
) -> None:
    """Scores a model on a text: loss in nats a token, perplexity, bits a byte; every token is predicted once."""
    from seqloom.cli.scoring import scored

    print(
        scored(run, data, batch=batch, stride=stride, memory=memory, column=column, step=step, as_json=as_json),
    )


def data(
    source: Annotated[str, typer.Argument(help=f"{TEXT}, gutenberg-children, stories")],
    vocab: Annotated[
        int | None, typer.Option(help="entries of the tokenizer that is trained; 5000 unless one is given")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="a tokenizer.json, a folder of a Hugging Face tokenizer, or bytes")
    ] = None,
    column: Annotated[str, typer.Option(help="the column or field of the text")] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Prepares a source, building its tokenizer and token files, and prints what it holds and what was skipped."""
    from seqloom.cli.surveying import surveyed

    print(surveyed(source, vocab, tokenizer, column, as_json=as_json))


def report(
    comparison: Annotated[Path, typer.Argument(help="the folder of a comparison: the --out of seqloom compare")],
) -> None:
    """Writes report.html of a comparison again, from the rows in its folder; needs no torch."""
    from seqloom.report.page import write

    print(f"the report is {write(comparison)}")


def distill(
    run: Run,
    order: Annotated[int, typer.Option(help="poles of each channel: complex numbers of its state")],
    out: Annotated[Path, typer.Option(help="the folder of the new run", parser=folder, metavar="PATH")],
    data: Annotated[
        str | None,
        typer.Option("--data", "--source", help="the text to predict; the held-out part of the run's own unless given"),
    ] = None,
    batch: Annotated[int, typer.Option(help="windows read at once", min=1)] = 64,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
) -> None:
    """Turns a run's taps (HE, WE, ME) into poles, so that it generates from a state of one size, and says the price."""
    from seqloom.cli.distilling import distilled

    print(distilled(run, order, out, data=data, batch=batch, step=step))


def demo(
    out: Annotated[Path, typer.Option(help="the folder for the runs", parser=folder, metavar="PATH")] = Path(
        "runs/demo"
    ),
    scale: Annotated[str, typer.Option(help="full: minutes; tiny: seconds, to see that it works")] = "full",
) -> int:
    """Trains five mixers on stories from a known grammar, compares them and prints the conclusion."""
    from seqloom.cli.showing import shown

    return shown(out, scale)


def runs(
    folder: Annotated[Path, typer.Argument(help="a folder with runs in it, as the --out of compare or of a study")],
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """The runs in a folder: state, batches, loss, time, and in what their settings differ."""
    from seqloom.cli.runs import listed

    print(listed(folder, as_json=as_json))


def doctor(
    run: Annotated[Path | None, typer.Argument(help="the folder of a run, whose files are checked instead")] = None,
) -> int:
    """What is installed and what runs here; or whether every file of a run is as it was written (exit 1 if not)."""
    if run is None:
        from seqloom.cli.environment import environment

        print(environment())
        return 0
    from seqloom.cli.run_health import checked

    lines, whole = checked(run)
    print(lines)
    return 0 if whole else 1


PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Models": (train, generate, evaluate),
    "Comparisons": (compare, bench, cost, verify),
    "Information": (report, list_mixers, settings, runs, doctor),
    "More": (data, distill, demo),
}
"""the commands as the help groups them"""
NAMES = {list_mixers: "list"}
studies = typer.Typer(
    no_args_is_help=True,
    help="Studies of many runs: recall, texts beyond the trained length, the Extractor paper's figures, the board.",
)
studies.command()(recall)
studies.command()(extrapolate)
studies.command()(paper)
studies.command()(board)

for _panel, _commands in PANELS.items():
    for _command in _commands:
        _settings = Options if _command is cost else None
        app.command(NAMES.get(_command), rich_help_panel=_panel, context_settings=_settings)(_command)
    if _panel == "Comparisons":
        app.add_typer(studies, name="study", rich_help_panel=_panel)
