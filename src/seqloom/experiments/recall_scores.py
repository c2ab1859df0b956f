"""The mixers of one probe in order: each at each width, at the learning rate that did best by it."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from seqloom.core.statistics import mean
from seqloom.evaluation.answers import Row


def standing(rows: Sequence[Row]) -> list[Row]:
    """Each mixer at each width, at the learning rate that did best by it, the best first: means over the seeds.

    Of the rows of one probe at one difficulty; `by_distance` has the accuracies by (low, high). As Zoology does, the
    learning rate is chosen by the questions that the accuracy is of; runs that did not converge count as wrong.
    """
    best: dict[tuple[str, int], Row] = {}
    keys = ("mixer", "dim", "lr")

    def place(row: Row) -> list[Any]:
        return [row[key] for key in keys]

    for _, some in groupby(sorted(rows, key=place), place):
        those = list(some)
        whole = [row for row in those if row["distance"] is None]
        spans = {tuple(row["distance"]) for row in those if row["distance"]}
        found = {
            **{name: whole[0][name] for name in (*keys, "parameters")},
            **{name: mean([row[name] for row in whole]) for name in ("batches", "seconds")},
            "accuracy": mean([row["accuracy"] or 0.0 for row in whole]),
            "by_distance": {s: mean([r["accuracy"] for r in those if r["distance"] == list(s)]) for s in spans},
        }
        model = (found["mixer"], found["dim"])
        if model not in best or found["accuracy"] > best[model]["accuracy"]:
            best[model] = found
    return sorted(best.values(), key=lambda row: -row["accuracy"])
