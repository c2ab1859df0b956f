"""Whole documents in rows of `context` + 1 tokens, for training: packed.

    piece:  <eos> t1 … tn <eos> of one document, cut where it is longer than a row (`windows.cut`)
    row:    pieces one after the other; each, in a shuffled order, goes to the fullest row that has room for it

Every id of the text is the target of one piece: the pieces are the windows of `held_out`. Which of them share a row
depends on the seed alone: nothing crosses a border, so that it need not change from epoch to epoch. Sample
s = step · batch + row; its epoch is s // rows, and it is the row to which the shuffle of that epoch sends s mod rows.
So a batch needs (seed, step) alone.

Source: best fit (Johnson, Near-optimal bin packing algorithms, 1973); here the order is shuffled and not by size.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.seeds import require_seed
from seqloom.data.permutation import permute
from seqloom.data.tokens import Tokens
from seqloom.data.windows import cut

SHORTEST = 2
"""tokens of a piece at least: one that is read and one that is predicted"""


@final
class PackedRows:
    """The documents of `tokens` in rows of `context` + 1 ids, shuffled in each epoch, without replacement.

    Raises ValueError where `context` is less than 1.
    """

    def __init__(self, tokens: Tokens, context: int, seed: int) -> None:
        if context < 1:
            raise ValueError(f"context must be at least 1, and is {context}")
        require_seed(seed)
        self._tokens = tokens
        self._width = context + 1
        self._seed = seed
        firsts, targets, begins = cut(tokens, context)
        order = permute(np.arange(len(firsts)), 0, len(firsts), seed)
        row = best_fit((targets[order] + 1).tolist(), self._width)
        order = order[np.argsort(row, kind="stable")]  # row by row
        self._firsts = firsts[order]
        self._sizes = targets[order] + 1
        self._begins = begins[order]
        self._ends = np.cumsum(np.bincount(row))

    @property
    def rows(self) -> int:
        """How many rows there are: one epoch."""
        return len(self._ends)

    @property
    def padding(self) -> float:
        """The share of the rows' tokens that belongs to no document."""
        return 1 - int(self._sizes.sum()) / (self.rows * self._width)

    @property
    def description(self) -> str:
        """What the rows hold, in a few words."""
        pieces = f"{self._tokens.documents:,} documents in {len(self._sizes):,} pieces"
        return f"packed: {pieces} in {self.rows:,} rows of {self._width:,} tokens, {self.padding:.1%} padding"

    def batch(self, step: int, batch: int) -> tuple[Int[Tensor, "B W"], Int[Tensor, "B W"]]:
        """The rows of one step, counted from 0: ids and the number of each token's document in its row, from 0.

        At padding, which ends a row, the id is `<eos>` and the number -1.
        """
        if step < 0 or batch < 1:
            raise ValueError(f"a batch needs step >= 0 and batch >= 1, not {step} and {batch}")
        epoch, index = np.divmod(np.arange(step * batch, (step + 1) * batch), self.rows)
        chosen = permute(index, epoch, self.rows, self._seed)
        firsts = np.where(chosen == 0, 0, self._ends[chosen - 1])
        counts = self._ends[chosen] - firsts
        row = np.repeat(np.arange(batch), counts)  # of each piece
        number = _counted(counts)
        piece = np.repeat(firsts, counts) + number
        sizes = self._sizes[piece]
        column = _counted(np.bincount(row, sizes, batch).astype(np.int64))  # of each token
        offset = _counted(sizes)
        position = np.repeat(self._firsts[piece], sizes) + offset - 1
        begins = np.repeat(self._begins[piece], sizes) & (offset == 0)
        eos = self._tokens.eos
        ids = np.full((batch, self._width), eos, np.int64)
        ids[np.repeat(row, sizes), column] = np.where(begins, eos, self._tokens.ids[np.maximum(position, 0)])
        document = np.full((batch, self._width), -1, np.int64)
        document[np.repeat(row, sizes), column] = np.repeat(number, sizes)
        return torch.from_numpy(ids), torch.from_numpy(document)


def best_fit(sizes: Iterable[int], width: int) -> npt.NDArray[np.int64]:
    """The row of `width` tokens that each piece goes to: the fullest that has room for it, or else a new one."""
    rows_by_room: defaultdict[int, list[int]] = defaultdict(list)
    rooms = 0  # bit n is set where a row has room for n tokens, so that the least sufficient room is found at once
    chosen: list[int] = []
    rows = 0
    for size in sizes:
        sufficient = rooms >> size
        if sufficient:
            room = size + (sufficient & -sufficient).bit_length() - 1
            row = rows_by_room[room].pop()
            if not rows_by_room[room]:
                rooms ^= 1 << room
        else:
            room = width
            row = rows
            rows += 1
        room -= size
        if room >= SHORTEST:
            rows_by_room[room].append(row)
            rooms |= 1 << room
        chosen.append(row)
    return np.array(chosen, np.int64)


def require_documents(tokens: Tokens, source: str) -> None:
    """ValueError unless the training text has several documents: borders to keep."""
    if tokens.documents < 2:
        raise ValueError(
            f"{source}: data.packed fills rows with whole documents, and the training text is a single one: "
            "give a folder or a .jsonl file, or leave data.packed out"
        )


def _counted(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0 … n - 1 for each n of `counts`, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
