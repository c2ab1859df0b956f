"""`seqloom study calibrate`: a threshold of exits that a text vouches for; loads nothing heavy before it runs."""

from typing import Annotated

import typer

from seqloom.cli.text import TEXT, Run


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
    try:
        values = [float(word) for word in thresholds[:1000].split(",")]
    except ValueError:
        raise ValueError(f"--thresholds is a list of numbers, as 1,0.9,0.8, not {thresholds[:60]!r}") from None
    from seqloom.cli.calibrating import calibrated

    print(calibrated(run, data, values, delta, epsilon, exit_by, longest, step, as_json=as_json))
