"""The work of `seqloom study exits`, `thresholds` and `calibrate`: each returns what is printed."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from seqloom.cli.options import exit_measure
from seqloom.cli.work.retrieval import model_of, tokens_of
from seqloom.core.table import table
from seqloom.depth.classifier import ConfidenceClassifier
from seqloom.depth.store import open_exits, require_new, save_exits, save_thresholds
from seqloom.evaluation.calibration import calibrate
from seqloom.evaluation.thresholds import search_thresholds
from seqloom.training.exit_fitting import fit_exits


def train_classifier(
    run: Path,
    data: str,
    out: Path,
    column: str | None,
    step: int | None,
    training_settings: Mapping[str, Any],
    *,
    as_json: bool,
) -> str:
    """Trains a classifier, stores it, and returns a table of its exits on the last tenth of the text."""
    require_new(out)
    model = model_of(run, step)
    fitted = fit_exits(model, tokens_of(run, model, data, column), **training_settings)
    save_exits(fitted.classifier, model, data, out)
    losses = {"before": fitted.before, "after": fitted.after}
    if as_json:
        return json.dumps({**losses, "judged": [asdict(row) for row in fitted.judged]})
    head = ("the last tenth of the text", f"layers of {len(model.config.mixers)}", "tokens that differ", "right")
    rows = [(row.by, row.layers, 1 - row.same, row.right) for row in fitted.judged]
    note = f"loss {fitted.before:.4f} nats before training, {fitted.after:.4f} after; use it by --exit-by {out}"
    return f"{table(head, rows)}\n\n{note}"


def find_thresholds(
    run: Path,
    folder: Path,
    data: str,
    column: str | None,
    step: int | None,
    grid: list[float],
    delta: float,
    seed: int,
    *,
    as_json: bool,
) -> str:
    """Finds a threshold for each layer of a classifier, stores them with it and returns what they give."""
    model = model_of(run, step)
    classifier = open_exits(folder, model)
    if not isinstance(classifier, ConfidenceClassifier):
        raise ValueError(f"a classifier of kind {classifier.config.kind} chooses the layer itself, without thresholds")
    tokens = tokens_of(run, model, data, column)
    result = search_thresholds(model, classifier, tokens, grid=grid, delta=delta, seed=seed)
    if result.best is not None:
        save_thresholds(result.best.thresholds, folder)
    if as_json:
        return json.dumps(asdict(result))
    rows = [("all layers", float(len(model.config.mixers)), result.right)]
    rows += [(f"--exit {row.thresholds[0]:g}, without decay", row.layers, row.right) for row in result.alike]
    if result.best is None:
        answer = "no combination is accurate enough: use a larger --delta, or a --grid that includes 1"
    else:
        rows.append(("the best of all", result.best.layers, result.best.right))
        values = ", ".join(f"{value:g}" for value in result.best.thresholds)
        answer = f"the best of {result.combinations:,} combinations, {values}, is stored in {folder}: leave out --exit"
    return f"{table((data, f'layers of {len(model.config.mixers)}', 'right'), rows)}\n\n{answer}"


def calibrate_threshold(
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
    measure = exit_measure(model, by)
    result = calibrate(model, tokens, thresholds=thresholds, delta=delta, epsilon=epsilon, by=measure, longest=longest)
    if as_json:
        return json.dumps({**asdict(result), "delta": delta, "epsilon": epsilon, "by": by})
    rows = [list(row) for row in zip(result.thresholds, result.depths, result.losses, result.p, strict=True)]
    head = ("--exit", f"layers of {len(model.config.mixers)}", "tokens that differ", "p")
    if result.chosen is None:
        answer = f"no threshold passes the test: read more than {result.texts:,} texts, or use a larger --delta"
    else:
        option = "" if by == "softmax" else f" --exit-by {by}"
        bound = f"at most {delta:.0%} of tokens differ, with probability {1 - epsilon:.0%}"
        answer = f"--exit {result.chosen:g}{option}: {bound}"
    return f"{table(head, rows)}\n\n{answer}"
