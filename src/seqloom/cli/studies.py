"""Commands of `seqloom study`: early exits, the Extractor paper, the board. Loads nothing heavy before they run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import TEXT, Run, folder, given_of, numbers


def exits(
    run: Run,
    data: Annotated[str, typer.Option(help=f"the text to learn from, which the run may know: {TEXT}, stories")],
    out: Annotated[Path, typer.Option(help="the folder of the classifier", parser=folder, metavar="PATH")],
    kind: Annotated[
        str,
        typer.Option(
            help="learned: would later layers change the likeliest token (CALM); Depth-Adaptive's: sequence, one layer "
            "for a text, by its prompt; multinomial, one for each token; geometric, on or not after each layer"
        ),
    ] = "learned",
    oracle: Annotated[
        str | None, typer.Option(help="of Depth-Adaptive's: likelihood (unless given) or correctness of each layer")
    ] = None,
    penalty: Annotated[
        float | None, typer.Option(help="of Depth-Adaptive's: what a layer costs, in nats or right tokens; 0.1")
    ] = None,
    width: Annotated[
        float | None, typer.Option(help="of multinomial and geometric: σ, how far the oracle looks around a token; 1")
    ] = None,
    batches: Annotated[int, typer.Option(help="windows are read so many times", min=1)] = 300,
    batch: Annotated[int, typer.Option(help="windows of a batch", min=1)] = 16,
    rate: Annotated[float, typer.Option(help="learning rate, of Adam")] = 0.01,
    seed: Annotated[int, typer.Option(help="the same seed reads the same windows")] = 0,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Trains a linear classifier of a run's layers, which stay as they are, for `--exit-by`."""
    from seqloom.cli.exits import trained

    how: dict[str, Any] = {"kind": kind, "batches": batches, "batch": batch, "rate": rate, "seed": seed}
    how |= given_of({"oracle": oracle, "penalty": penalty, "width": width})
    print(trained(run, data, out, column, step, how, as_json=as_json))


def thresholds(
    run: Run,
    exit_by: Annotated[Path, typer.Option(help="the folder of `seqloom study exits` that they are for")],
    data: Annotated[str, typer.Option(help=f"the text to try them on, held out from both: {TEXT}, stories")],
    delta: Annotated[float, typer.Option(help="how much smaller the share of right tokens may become")] = 0.01,
    grid: Annotated[str, typer.Option(help="thresholds that each layer may have")] = "0.3,0.5,0.7,0.9,1",
    seed: Annotated[int, typer.Option(help="of the windows, and of the combinations where there are many")] = 0,
    column: Annotated[str | None, typer.Option(help="the column or field of the text")] = None,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Finds the thresholds, one per layer, that read the fewest layers; `generate --exit-by` then uses them."""
    values = numbers("--grid", grid, "0.5,0.9")
    from seqloom.cli.exits import searched

    print(searched(run, exit_by, data, column, step, values, delta, seed, as_json=as_json))


def calibrate(
    run: Run,
    data: Annotated[str, typer.Option(help=f"texts to read, one document each: {TEXT}, stories")],
    delta: Annotated[float, typer.Option(help="the largest share of tokens that may differ, in expectation")] = 0.1,
    epsilon: Annotated[float, typer.Option(help="the probability that this fails")] = 0.05,
    exit_by: Annotated[
        str, typer.Option(help="how sure a token is: softmax, state, or the folder of `seqloom study exits`")
    ] = "softmax",
    thresholds: Annotated[
        str, typer.Option(help="tested in this order, from the highest on")
    ] = "1,0.95,0.9,0.8,0.7,0.6,0.5,0.4,0.3,0.2,0.1",
    longest: Annotated[int, typer.Option(help="tokens of a text that are read", min=2)] = 64,
    step: Annotated[int | None, typer.Option(help="the checkpoint of this step, not the newest")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Finds the lowest `--exit` at which at most a share of tokens differs, with a probability (Learn then Test)."""
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
    scale: Annotated[str, typer.Option(help="full: the paper's settings; small: hours on two cores; tiny")] = "small",
    out: Annotated[
        Path | None,
        typer.Option(help="the folder for cells and figures (runs/paper-SCALE)", parser=folder, metavar="PATH"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", "--data", help="a text file, a folder, .jsonl, .parquet, gutenberg-children, stories"),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="print what it will take, and train nothing")] = False,
    seeds: Annotated[int | None, typer.Option(help="runs of each model, with other weights and dropout")] = None,
    batches: Annotated[int | None, typer.Option(help="of each cell, in place of the scale's; more go on")] = None,
    only: Annotated[list[str] | None, typer.Option(help="this model alone, as she or attention:heads=32")] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of all, as training.compile=true")
    ] = None,
    jobs: Annotated[int, typer.Option(help="cells that train at once, with a share of the cores each")] = 1,
    cluster: Annotated[str | None, typer.Option(help="train as jobs through submitit: slurm or local")] = None,
    cluster_set: Annotated[
        list[str] | None, typer.Option(help="a setting of the jobs, as slurm_partition=gpu or timeout_min=600")
    ] = None,
    allow_drift: Annotated[bool, typer.Option(help="go on although torch, device or backends changed")] = False,
) -> int:
    """The Extractor paper's figures and tables; cells that are done are not trained again; Ctrl-C saves."""
    from seqloom.cli.paper import Asked, replicated
    from seqloom.experiments.runner import Workers

    asked = Asked(scale, out, source, plan, seeds, batches, tuple(only or ()), tuple(change or ()), allow_drift)
    return replicated(names, asked, Workers(jobs, cluster, tuple(cluster_set or ())))


def board(
    out: Annotated[
        Path,
        typer.Option(help="the folder for the runs; the same command goes on there", parser=folder, metavar="PATH"),
    ],
    data: Annotated[
        str | None, typer.Option("--data", "--source", help="a folder of texts whose authors are named")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="print decisions, price and time, and train nothing")] = False,
    results: Annotated[
        Path | None,
        typer.Option(help="rows of runs that are not run again (results/board.jsonl)", parser=folder, metavar="PATH"),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="add the finished runs in --out to --results, show the board, train nothing")
    ] = False,
    race: Annotated[
        bool, typer.Option("--race", help="time steps and tokens instead, while the machine does nothing else")
    ] = False,
    change: Annotated[list[str] | None, typer.Option("--set", help="a setting of all, as training.batches=100")] = None,
    jobs: Annotated[int, typer.Option(help="runs that train at once, with a share of the cores each")] = 1,
) -> int:
    """Trains all rows of the board, those of its five decisions first; Ctrl-C saves, and the same command goes on."""
    from seqloom.cli.checked import require_settings

    if not merge:
        require_settings("board/small", change or [], data)
    from seqloom.cli.board import Asked, boarded
    from seqloom.experiments.board.rows import STORED
    from seqloom.experiments.runner import Workers

    asked = Asked(data, tuple(change or ()), results or STORED, merge, race, plan)
    return boarded(asked, out, Workers(jobs))
