"""How many questions of a probe a model answers rightly, by distance: counted, never estimated.

right(d) = #{questions at distance d whose likeliest answer is the right one},   accuracy(d) = right(d) / asked(d)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, final

import numpy as np
import torch

from seqloom.core.statistics import mean
from seqloom.data.probes import HELD_OUT, Probe
from seqloom.data.probes.draws import Ints
from seqloom.experiments.recall_model import Answers, stacked

Row = dict[str, Any]


@final
@dataclass(frozen=True, eq=False)
class Score:
    """Questions asked and answered rightly: (T,) counts, at each distance from 0 (never) on."""

    asked: Ints
    right: Ints

    @property
    def accuracy(self) -> float:
        """Of all questions, whatever their distance."""
        return int(self.right.sum()) / int(self.asked.sum())

    def rows(self) -> list[Row]:
        """Of all questions first (`distance` is null), then for distances 1, 2, 3-4, 5-8, … where there are any."""
        whole = [None, *((2 ** (k - 1) + 1 if k else 1, 2**k) for k in range((len(self.asked) - 2).bit_length() + 1))]
        return [row for row in map(self._row, whole) if row["asked"]]

    def _row(self, distance: tuple[int, int] | None) -> Row:
        low, high = distance or (1, len(self.asked))
        asked, right = int(self.asked[low : high + 1].sum()), int(self.right[low : high + 1].sum())
        accuracy = right / asked if asked else None
        return {"distance": distance and list(distance), "asked": asked, "right": right, "accuracy": accuracy}


def score(model: Answers, probe: Probe, seed: int, rows: int, *, batch: int, first: int = 0) -> Score:
    """Asks a model about `rows` rows that are never trained on, `batch` at a time, from their batch `first` on.

    Leaves the model in its mode.
    """
    asked, right = np.zeros(probe.places + 1, np.int64), np.zeros(probe.places + 1, np.int64)
    training, device = model.training, model.token.weight.device
    model.eval()
    try:
        with torch.no_grad():
            for step in range(-(-rows // batch)):
                found = probe.questions(seed, HELD_OUT + first + step, batch)
                said = model(stacked(found)[:, :-1].to(device)).argmax(2).cpu().numpy()
                asked += np.bincount(found.distance.ravel(), minlength=len(asked))
                correct = found.distance[said == found.targets]
                right += np.bincount(correct, minlength=len(asked))
    finally:
        model.train(training)
    asked[0] = right[0] = 0
    return Score(asked, right)


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
