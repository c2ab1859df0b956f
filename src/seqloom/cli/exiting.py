"""`seqloom study exits` and the option `--exit-by`: the work, which loads torch."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqloom.cli.retrieving import model_of, tokens_of
from seqloom.core.config import near
from seqloom.core.model import Model
from seqloom.core.table import table
from seqloom.depth.store import NAME, open_exits, require_new, save_exits
from seqloom.generation.exits import MEASURES, Measure
from seqloom.training.exit_fitting import fit_exits


def trained(
    run: Path, data: str, out: Path, column: str | None, step: int | None, how: Mapping[str, Any], *, as_json: bool
) -> str:
    """Trains a classifier, writes it, and returns what it does with a part of the text that it has not seen."""
    require_new(out)
    model = model_of(run, step)
    fitted = fit_exits(model, tokens_of(run, model, data, column), **how)
    save_exits(fitted.classifier, model, data, out)
    losses = {"before": fitted.before, "after": fitted.after}
    if as_json:
        return json.dumps({**losses, "judged": [asdict(row) for row in fitted.judged]})
    head = ("the last tenth of the text", f"layers of {len(model.config.mixers)}", "tokens that differ", "right")
    rows = [(row.by, row.layers, 1 - row.same, row.right) for row in fitted.judged]
    said = f"loss {fitted.before:.4f} nats before training, {fitted.after:.4f} after; use it by --exit-by {out}"
    return f"{table(head, rows)}\n\n{said}"


def measure_of(model: Model, named: str) -> Measure:
    """The measure that `--exit-by` names: a word, or the folder of a classifier."""
    word = next((measure for measure in MEASURES if measure == named), None)
    if word is not None:
        return word
    if not Path(named, NAME).is_file():
        known = near(named, MEASURES)
        raise ValueError(f"--exit-by {named[:60]!r} is no measure and no folder of `seqloom study exits`; {known}")
    return open_exits(named, model)
