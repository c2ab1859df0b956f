"""`seqloom evaluate` of a model that predicts numbers."""

import json
from pathlib import Path
from typing import Any

from seqloom.core.table import table
from seqloom.data.series import read_series
from seqloom.face import load
from seqloom.training.objectives.numbers import Numbers


def score_numbers(run: Path, data: str, batch: int, column: str | None, step: int | None, as_json: bool) -> str:
    """The errors of a model on a series, as text or as one JSON object: on windows of a whole file, side by side.

    ValueError where the columns are not those of the model.
    """
    model: Any = load(run, step=step)
    chosen = ",".join(model.config.columns) if column is None and ":" not in data else column
    series = read_series(data, model.config.context, 1.0, chosen)
    row = Numbers(series, batch).score(model, series)
    if as_json:
        return json.dumps(row)
    unit = "nats" if model.config.head == "gaussians" else "squared, scaled"
    lines: list[tuple[str, object]] = [(f"loss per number, {unit}", row["held_out"]), ("numbers", row["numbers"])]
    for name, words in (("rmse", "root mean squared error"), ("rmse_of_the_best", "that of the best prediction")):
        lines += [(f"{words}, {target}", error) for target, error in row.get(name, {}).items()]
    return table((str(run), data), lines)
