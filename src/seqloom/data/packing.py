"""Packing for training: rows of `context` + 1 tokens that are filled with whole documents.

    piece:  <eos> t1 … tn <eos> of one document, cut where it is longer than a row (`windows.cut`)
    row:    several pieces; pieces are taken in a shuffled order and put into the fullest row that has room

Every id of the text is a target in exactly one piece: the pieces are the windows of `windows.held_out`. The seed alone
decides which pieces share a row. This does not change between epochs, since no token reads another piece anyway. A
batch depends on (seed, step) alone: sample s = step · batch + row is in epoch s // rows, and it is the row to which the
shuffle of that epoch sends s mod rows.

Source: best fit (Johnson, Near-optimal bin packing algorithms, 1973). What differs: pieces come in a shuffled order,
not sorted by size.
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
"""the fewest tokens of a piece: one to read and one to predict"""


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
        firsts, targets, starts_document = cut(tokens, context)
        order = permute(np.arange(len(firsts)), 0, len(firsts), seed)
        row = best_fit((targets[order] + 1).tolist(), self._width)
        order = order[np.argsort(row, kind="stable")]  # the pieces of row 0, then of row 1, …
        self._firsts = firsts[order]
        self._sizes = targets[order] + 1
        self._begins = starts_document[order]
        self._ends = np.cumsum(np.bincount(row))

    @property
    def rows(self) -> int:
        """The number of rows, which is one epoch."""
        return len(self._ends)

    @property
    def padding(self) -> float:
        """The share of tokens in the rows that is padding."""
        return 1 - int(self._sizes.sum()) / (self.rows * self._width)

    @property
    def description(self) -> str:
        """How many documents, pieces and rows there are, in a few words."""
        pieces = f"{self._tokens.documents:,} documents in {len(self._sizes):,} pieces"
        return f"packed: {pieces} in {self.rows:,} rows of {self._width:,} tokens, {self.padding:.1%} padding"

    def batch(self, step: int, batch: int) -> tuple[Int[Tensor, "B W"], Int[Tensor, "B W"]]:
        """The rows of a step, counted from 0: the ids, and for each token which document of its row it is in, from 0.

        Padding, at the end of a row, has the id `<eos>` and the document -1.
        """
        if step < 0 or batch < 1:
            raise ValueError(f"a batch needs step >= 0 and batch >= 1, not {step} and {batch}")
        epoch, index = np.divmod(np.arange(step * batch, (step + 1) * batch), self.rows)
        chosen = permute(index, epoch, self.rows, self._seed)
        firsts = np.where(chosen == 0, 0, self._ends[chosen - 1])
        counts = self._ends[chosen] - firsts
        row = np.repeat(np.arange(batch), counts)  # the row of each piece
        number_in_row = _ranges(counts)
        piece = np.repeat(firsts, counts) + number_in_row
        sizes = self._sizes[piece]
        column = _ranges(np.bincount(row, sizes, batch).astype(np.int64))  # the column of each token
        offset = _ranges(sizes)
        position = np.repeat(self._firsts[piece], sizes) + offset - 1
        starts_document = np.repeat(self._begins[piece], sizes) & (offset == 0)
        eos = self._tokens.eos
        ids = np.full((batch, self._width), eos, np.int64)
        ids[np.repeat(row, sizes), column] = np.where(starts_document, eos, self._tokens.ids[np.maximum(position, 0)])
        document = np.full((batch, self._width), -1, np.int64)
        document[np.repeat(row, sizes), column] = np.repeat(number_in_row, sizes)
        return torch.from_numpy(ids), torch.from_numpy(document)


def best_fit(sizes: Iterable[int], width: int) -> npt.NDArray[np.int64]:
    """The row of `width` tokens that each piece is put into: the fullest one that has room for it, or a new one."""
    rows_by_room: defaultdict[int, list[int]] = defaultdict(list)
    rooms = 0  # bit n is set where a row has room for n tokens, so that the smallest sufficient room is found fast
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
    """Raises ValueError unless the training text has several documents."""
    if tokens.documents < 2:
        raise ValueError(
            f"{source}: data.packed fills rows with whole documents, and the training text is a single one: "
            "give a folder or a .jsonl file, or leave data.packed out"
        )


def _ranges(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers 0 … n - 1 for each n of `counts`, concatenated."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
