"""Commands of `seqloom study`: early exits, the Extractor paper, the board. Loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import TEXT, Run, folder, given_options, numbers, out_folder


def exits(
    run: Run,
    data: Annotated[str, typer.Option(help=f"the training text, which may be the run's: {TEXT}, stories")],
    out: Annotated[Path, typer.Option(help="the folder of the classifier", parser=folder, metavar="PATH")],
    kind: Annotated[
        str,
        typer.Option(
            help="learned: whether the prediction is final (CALM); or of the Depth-Adaptive Transformer: sequence (one "
            "layer per text, from its prompt), multinomial (one per token), geometric (stop or not after each layer)"
        ),
    ] = "learned",
    oracle: Annotated[
        str | None,
        typer.Option(
            help="with --kind sequence, multinomial or geometric: target layer by likelihood (default) or correctness"
        ),
    ] = None,
    penalty: Annotated[
        float | None,
        typer.Option(
            help="with --kind sequence, multinomial or geometric: cost λ of a layer, in nats or correct tokens (0.1)"
        ),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(
            help="with --kind multinomial or geometric: σ of the kernel that averages over neighboring tokens (1)"
        ),
    ] = None,
    batches: Annotated[int, typer.Option(help="training batches", min=1)] = 300,
    batch: Annotated[int, typer.Option(help="windows of a batch", min=1)] = 16,
    rate: Annotated[float, typer.Option(help="learning rate of Adam")] = 0.01,
    seed: Annotated[int, typer.Option(help="of the choice of windows")] = 0,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Trains a linear classifier for early exits on the frozen layers of a run; used by `generate --exit-by`."""
    from seqloom.cli.exits import trained
    from seqloom.training.exit_fitting import require_taken

    of_kind = given_options({"oracle": oracle, "penalty": penalty, "width": width})
    require_taken(kind, of_kind, "--")
    training_settings: dict[str, Any] = {"kind": kind, "batches": batches, "batch": batch, "rate": rate, "seed": seed}
    training_settings |= of_kind
    print(trained(run, data, out, column, step, training_settings, as_json=as_json))


def thresholds(
    run: Run,
    exit_by: Annotated[Path, typer.Option(help="the classifier: a folder of `seqloom study exits`")],
    data: Annotated[str, typer.Option(help=f"the text to search on, used in no training: {TEXT}, stories")],
    delta: Annotated[float, typer.Option(help="largest decrease of the accuracy")] = 0.01,
    grid: Annotated[str, typer.Option(help="thresholds to try for each layer")] = "0.3,0.5,0.7,0.9,1",
    seed: Annotated[int, typer.Option(help="of the choice of windows and, above 10,000, of combinations")] = 0,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Searches one threshold per layer for the fewest layers at the allowed accuracy; used by `generate --exit-by`."""
    values = numbers("--grid", grid, "0.5,0.9")
    from seqloom.cli.exits import searched

    print(searched(run, exit_by, data, column, step, values, delta, seed, as_json=as_json))


def calibrate(
    run: Run,
    data: Annotated[str, typer.Option(help=f"texts to calibrate on, one per document: {TEXT}, stories")],
    delta: Annotated[float, typer.Option(help="largest expected share of tokens that differ from all layers")] = 0.1,
    epsilon: Annotated[float, typer.Option(help="probability that the bound fails")] = 0.05,
    exit_by: Annotated[
        str, typer.Option(help="confidence: softmax, state, or a folder of `seqloom study exits`")
    ] = "softmax",
    thresholds: Annotated[
        str, typer.Option(help="thresholds to test, from the highest to the lowest")
    ] = "1,0.95,0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1",
    longest: Annotated[int, typer.Option(help="tokens read of each text", min=2)] = 64,
    step: Annotated[int | None, typer.Option(help="use the checkpoint of this step instead of the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Finds the lowest `--exit` whose share of differing tokens is at most delta (Learn then Test, as in CALM)."""
    values = numbers("--thresholds", thresholds, "1,0.9,0.8")
    from seqloom.cli.exits import calibrated

    print(calibrated(run, data, values, delta, epsilon, exit_by, longest, step, as_json=as_json))


def paper(
    names: Annotated[
        list[str],
        typer.Argument(
            help="fig7 … fig11, table2 … table7, equal-params, equal-mul, equal-time, groups, controls, lr, or all"
        ),
    ],
    scale: Annotated[
        str, typer.Option(help="full (the paper's settings), small (hours on two cores) or tiny")
    ] = "small",
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for runs and figures (runs/paper-SCALE)", parser=folder, metavar="PATH"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", "--data", help="a text file, a folder, .jsonl, .parquet, gutenberg-children, stories"),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="print the models, their memory and the time, and train nothing")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="runs of each model, with different weights and dropout")] = None,
    batches: Annotated[
        int | None, typer.Option(help="training batches of each run, in place of the scale's; may be raised later")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="only this model, e.g. she or attention:heads=32")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. training.compile=true")
    ] = None,
    jobs: Annotated[int, typer.Option(help="runs that train at once, each on a share of the cores")] = 1,
    cluster: Annotated[str | None, typer.Option(help="train as jobs through submitit: slurm or local")] = None,
    cluster_set: Annotated[
        list[str] | None, typer.Option(help="a setting of the jobs: slurm_partition=gpu, timeout_min=600")
    ] = None,
    allow_drift: Annotated[bool, typer.Option(help="continue although torch, the device or backends changed")] = False,
) -> int:
    """Reproduces the Extractor paper's figures and tables; finished runs are not repeated; Ctrl-C saves."""
    from seqloom.cli.paper import Options, replicated
    from seqloom.experiments.runner import Workers

    options = Options(scale, out, source, plan, seeds, batches, tuple(only or ()), tuple(change or ()), allow_drift)
    return replicated(names, options, Workers(jobs, cluster, tuple(cluster_set or ())))


def board(
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for the runs; the same command continues there", parser=folder, metavar="PATH"),
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", "--source", help="a folder of texts with their authors (see data.division)")
    ] = None,
    text: Annotated[str, typer.Option(help="books, or code (Python sources, a text per project)")] = "books",
    plan: Annotated[
        bool, typer.Option("--plan", help="print the decisions, the price and the time, and train nothing")
    ] = False,
    results: Annotated[
        Path | None,
        typer.Option(
            help="rows of finished runs, not repeated (results/comparison.jsonl)", parser=folder, metavar="PATH"
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(help="as --results, for tries: rows of a tree with changes too", parser=folder, metavar="PATH"),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="add finished runs of --out to --results, show the board, train nothing")
    ] = False,
    race: Annotated[
        bool, typer.Option("--race", help="time steps and tokens instead of training; needs an otherwise idle machine")
    ] = False,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all models, e.g. training.batches=100")
    ] = None,
    jobs: Annotated[int, typer.Option(help="runs that train at once, each on a share of the cores")] = 1,
) -> int:
    """Compares mixers at equal parameters, the five decisions fixed beforehand first; Ctrl-C saves."""
    from seqloom.cli.checked import require_settings
    from seqloom.core.config import suggestion
    from seqloom.experiments.board.lineup import TEXTS

    if text not in TEXTS:
        raise ValueError(f"--text {text!r} is unknown; {suggestion(text, TEXTS)}")
    if scratch is not None and results is not None:
        raise ValueError("--scratch takes the place of --results: leave out one of them")
    if not merge:
        require_settings("board/small", change or [], data)
    from seqloom.cli.board import Options, act
    from seqloom.experiments.board.rows import STORED
    from seqloom.experiments.runner import Workers

    options = Options(
        data, text, tuple(change or ()), scratch or results or STORED, scratch is not None, merge, race, plan
    )
    return act(options, out_folder(out, planned=plan), Workers(jobs))
