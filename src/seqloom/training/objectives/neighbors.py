"""Next token, with what followed the neighbors of each token: for models that look up in a store.

A batch holds, next to its `ids` (B, T + 1), `followed` (B, T, k) of its targets, from a table over the training text.
"""

from dataclasses import replace
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.objective import Batch, Carried, Check, Objective, Pass, Row
from seqloom.data.tokens import Tokens


def positions(tokens: Tokens) -> Tokens:
    """The same documents with the position of each token in place of its id."""
    return replace(tokens, ids=np.arange(len(tokens)), unknown=None)


@final
class WithNeighbors(Objective):
    """An objective, with the same over positions in place of ids, by which ids and neighbors are looked up."""

    def __init__(self, inner: Objective, places: Objective, tokens: Tokens, table: npt.NDArray[np.int32]) -> None:
        super().__init__()
        self.inner = inner
        self.places = places
        self._ids = tokens.ids
        self._table = table

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T + 1), `followed` (B, T, k), and what else the objective has."""
        batch = self.places.batch(seed, step, model)
        positions = batch["ids"].numpy()  # in the training text (B, T + 1)
        ids = self._ids[positions].astype(np.int64)
        followed = self._table[positions[:, 1:]].astype(np.int64)
        return {**batch, "ids": torch.from_numpy(ids), "followed": torch.from_numpy(followed)}

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        return self.inner.losses(model, batch, carried)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The objective's own score: neighbors of held-out tokens are looked up while the model reads."""
        return self.inner.score(model, held_out)

    @override
    def summary(self, row: Row) -> str:
        return self.inner.summary(row)

    @override
    def resize(self, context: int) -> None:
        self.inner.resize(context)
        self.places.resize(context)

    @override
    def targets(self, batch: Batch) -> int:
        return self.inner.targets(batch)

    @override
    def count_tokens(self, batch: Batch) -> int:
        return self.inner.count_tokens(batch)

    @override
    def row_size(self, batch: Batch) -> tuple[int, int] | None:
        return self.inner.row_size(batch)

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return self.inner.uncaptured_reason(pieces)

    @override
    def pass_steps(self, seed: int) -> int:
        return self.inner.pass_steps(seed)

    @override
    def description(self, seed: int) -> str:
        return self.inner.description(seed)

    @override
    def check(self, model: nn.Module, step: int) -> Check | None:
        return self.inner.check(model, step)


def neighbor_arguments(batch: Batch, first: int = 0, last: int | None = None) -> dict[str, Tensor]:
    """The arguments of a model's verbs with the neighbors of targets `first` to `last`, if the batch has neighbors."""
    return {"followed": batch["followed"][:, first:last]} if "followed" in batch else {}
