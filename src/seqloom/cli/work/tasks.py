"""`seqloom evaluate --tasks`: the scores of lm-eval's tasks as a table or as JSON."""

import json
from pathlib import Path

from seqloom.core.table import table
from seqloom.face import load


def score_tasks(run: Path, folder: Path, batch: int, step: int | None, as_json: bool) -> str:
    """The scores of all tasks of the folder. ValueError where transformers or lm-eval is missing."""
    try:
        from seqloom.hf.evaluate_tasks import evaluate_tasks
    except ImportError as error:
        raise ValueError(str(error)) from None
    scores = evaluate_tasks(load(run, step=step), folder, batch)
    if as_json:
        return json.dumps({"tasks": [score._asdict() for score in scores]})
    return table(("task", "metric", "value", "standard error"), scores)
