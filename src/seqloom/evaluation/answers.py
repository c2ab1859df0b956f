"""The share of a probe's questions that a model answers correctly, by distance: counted, not estimated.

right(d) = #{questions at distance d whose likeliest answer is correct},   accuracy(d) = right(d) / asked(d)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.data.probes import HELD_OUT, Probe
from seqloom.data.probes.draws import Ints

Row = dict[str, Any]


@final
@dataclass(frozen=True, eq=False)
class Score:
    """Questions asked and answered correctly: counts (T,) by distance; distance 0 does not occur."""

    asked: Ints
    right: Ints
    nats: float
    """the summed cross entropy of all questions"""

    @property
    def accuracy(self) -> float:
        """Over all questions."""
        return int(self.right.sum()) / int(self.asked.sum())

    @property
    def loss(self) -> float:
        """Nats per question."""
        return self.nats / int(self.asked.sum())

    def row(self) -> Row:
        """The score as a row of metrics."""
        return {"held_out": self.loss, "accuracy": self.accuracy, "answers": self.rows()}

    def rows(self) -> list[Row]:
        """First all questions (`distance` is null), then distances 1, 2, 3-4, 5-8, … that have questions."""
        doublings = (len(self.asked) - 2).bit_length()
        ranges = [(1, 1), *((2 ** (k - 1) + 1, 2**k) for k in range(1, doublings + 1))]
        return [row for row in map(self._row, [None, *ranges]) if row["asked"]]

    def _row(self, distance: tuple[int, int] | None) -> Row:
        """The counts at a range of distances, its ends included, or, for None, of all questions."""
        low, high = distance or (1, len(self.asked))
        asked = int(self.asked[low : high + 1].sum())
        right = int(self.right[low : high + 1].sum())
        accuracy = right / asked if asked else None
        return {"distance": distance and list(distance), "asked": asked, "right": right, "accuracy": accuracy}


def score(
    answers: Callable[[Tensor], Tensor], probe: Probe, seed: int, rows: int, *, batch: int, first: int = 0
) -> Score:
    """Asks about `rows` rows that are never trained on, `batch` at a time, from their batch `first` on.

    `answers` gives the logits (B, T, W) of rows (B, T), both on the CPU.
    """
    asked = np.zeros(probe.row_tokens + 1, np.int64)
    right = np.zeros(probe.row_tokens + 1, np.int64)
    nats = 0.0
    with torch.no_grad():
        for step in range(-(-rows // batch)):
            questions = probe.questions(seed, HELD_OUT + first + step, batch)
            logits = answers(torch.from_numpy(questions.tokens))
            scored = torch.from_numpy(questions.scored_positions)
            targets = torch.from_numpy(questions.targets)
            nats += float(cross_entropy(logits[scored].double(), targets[scored], reduction="sum"))
            asked += np.bincount(questions.distance.ravel(), minlength=len(asked))
            correct = questions.distance[logits.argmax(2).numpy() == questions.targets]
            right += np.bincount(correct, minlength=len(asked))
    asked[0] = 0
    right[0] = 0
    return Score(asked, right, nats)
