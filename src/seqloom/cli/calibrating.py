"""`seqloom study calibrate`: the work of the command, which loads torch."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqloom.cli.exiting import measure_of
from seqloom.cli.retrieving import model_of, tokens_of
from seqloom.core.table import table
from seqloom.evaluation.calibration import calibrate


def calibrated(
    run: Path,
    data: str,
    thresholds: list[float],
    delta: float,
    epsilon: float,
    by: str,
    longest: int,
    step: int | None,
    *,
    as_json: bool,
) -> str:
    """The rows of all thresholds, and the one that is chosen."""
    model = model_of(run, step)
    tokens = tokens_of(run, model, data, None)
    asked: dict[str, Any] = {"delta": delta, "epsilon": epsilon, "by": measure_of(model, by), "longest": longest}
    result = calibrate(model, tokens, thresholds=thresholds, **asked)
    if as_json:
        return json.dumps({**asdict(result), "delta": delta, "epsilon": epsilon, "by": by})
    rows = [list(row) for row in zip(result.thresholds, result.depths, result.losses, result.p, strict=True)]
    head = ("--exit", f"layers of {len(model.config.mixers)}", "tokens that differ", "p")
    if result.chosen is None:
        answer = f"no threshold is sure enough: read more than {result.texts:,} texts, or ask for a larger --delta"
    else:
        how = "" if by == "softmax" else f" --exit-by {by}"
        answer = (
            f"--exit {result.chosen:g}{how}: at most {delta:.0%} of tokens differ, with probability {1 - epsilon:.0%}"
        )
    return f"{table(head, rows)}\n\n{answer}"
