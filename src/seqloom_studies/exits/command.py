"""`seqloom study exits`, `thresholds` and `calibrate`: the options."""

from pathlib import Path
from typing import Annotated, Any

import typer

from seqloom.cli.options import TEXT, Run, folder, given_options, numbers
from seqloom.cli.time_limit import time_limited


@time_limited
def command(
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
    from seqloom.training.exit_fitting import require_taken
    from seqloom_studies.exits.study import train_classifier

    of_kind = given_options({"oracle": oracle, "penalty": penalty, "width": width})
    require_taken(kind, of_kind, "--")
    training_settings: dict[str, Any] = {"kind": kind, "batches": batches, "batch": batch, "rate": rate, "seed": seed}
    training_settings |= of_kind
    print(train_classifier(run, data, out, column, step, training_settings, as_json=as_json))


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
    from seqloom_studies.exits.study import find_thresholds

    print(find_thresholds(run, exit_by, data, column, step, values, delta, seed, as_json=as_json))


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
    from seqloom_studies.exits.study import calibrate_threshold

    print(calibrate_threshold(run, data, values, delta, epsilon, exit_by, longest, step, as_json=as_json))
