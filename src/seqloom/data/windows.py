"""Cuts token ids into batches: shuffled windows at stride 1 for training, adjacent windows for held-out text.

In training a sample is a window of context + 1 ids. Sample s = step · batch + row is in epoch s // starts, and begins
where the shuffle of that epoch sends s mod starts. So a batch depends on (seed, step) alone: a resumed run needs only
its step, every mixer is trained on the same batches, and an epoch reads the window at each start once.
"""

import math
import sys
from collections.abc import Iterator
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom.core.seeds import require_seed
from seqloom.data.permutation import permute
from seqloom.data.tokens import Tokens


@final
class Windows:
    """All windows of `context` + 1 ids at stride 1, shuffled in every epoch, without replacement.

    With `disjoint` the stride is `context`: adjacent windows share one id, and an epoch predicts each id once.

    Windows cross documents as in the paper. With `within_documents` no window has words of two documents: it may begin
    with the `<eos>` before its document and end with the `<eos>` of its document. Documents shorter than a window are
    then never read, and a warning says so. Raises ValueError where no window fits.
    """

    starts: int
    """the number of different windows, which is one epoch"""

    def __init__(
        self, tokens: Tokens, context: int, seed: int, within_documents: bool = False, disjoint: bool = False
    ) -> None:
        if context < 1:
            raise ValueError(f"context must be at least 1, and is {context}")
        require_seed(seed)
        self._width, self._seed = context + 1, seed
        self._stride = context if disjoint else 1
        self._firsts: np.ndarray | None = None
        if within_documents:
            self._count_within_documents(tokens)
        else:
            self.starts = max(len(tokens) - 1 - context + self._stride, 0) // self._stride
        if self.starts < 1:
            shortage = "no document holds" if within_documents else f"{len(tokens)} tokens are less than"
            raise ValueError(
                f"{shortage} one window of context + 1 = {self._width} tokens; add text or lower the context"
            )
        self._windows = np.lib.stride_tricks.sliding_window_view(tokens.ids, self._width)

    def epochs(self, steps: int, batch: int) -> float:
        """The epochs in `steps` batches of `batch` windows."""
        return steps * batch / self.starts

    def batch(self, step: int, batch: int) -> Tensor:
        """The windows of one step, counted from 0: (batch, context + 1) int64. Inputs are [:, :-1], targets [:, 1:]."""
        if step < 0 or batch < 1:
            raise ValueError(f"a batch needs step >= 0 and batch >= 1, not {step} and {batch}")
        return self.samples(np.arange(step * batch, (step + 1) * batch))

    def samples(self, numbers: npt.NDArray[np.int64]) -> Tensor:
        """The windows of samples, counted from 0 at the first row of step 0: (samples, context + 1) int64."""
        epoch, index = np.divmod(numbers, self.starts)
        return self._read(permute(index, epoch, self.starts, self._seed))

    def _read(self, start: npt.NDArray[np.int64]) -> Tensor:
        """The windows with these numbers, which are below `starts`."""
        if self._firsts is not None:
            document = np.searchsorted(self._windows_before, start, side="right") - 1
            start = self._firsts[document] + start - self._windows_before[document]
        start = start * self._stride
        return torch.from_numpy(self._windows[start].astype(np.int64))

    def pass_steps(self, batch: int) -> int:
        """The number of steps of a pass, which reads every window once; its last step may have fewer windows."""
        return -(-self.starts // batch)

    def pass_batch(self, step: int, batch: int) -> Tensor:
        """The windows of a step in the order of the text, pass after pass.

        No step has windows of two passes: the last step of a pass may have fewer than `batch` rows.
        """
        step_of_pass = step % self.pass_steps(batch)
        return self._read(np.arange(step_of_pass * batch, min((step_of_pass + 1) * batch, self.starts)))

    def _count_within_documents(self, tokens: Tokens) -> None:
        """Sets the first window of each document, the number of windows before it, and the number of all windows."""
        firsts = np.maximum(tokens.starts - 1, 0)  # the `<eos>` before the document; the first document has none
        counts = np.maximum(tokens.ends - firsts - self._width + 1, 0)
        self._firsts = firsts[counts > 0]
        self._windows_before = np.cumsum(counts[counts > 0]) - counts[counts > 0]
        self.starts = int(counts.sum())
        short = int((counts == 0).sum())
        if short and self.starts:
            documents = f"{short} of {len(counts)} documents"
            print(f"{documents} are shorter than one window of {self._width} tokens: never read", file=sys.stderr)


def held_out(
    tokens: Tokens, context: int, batch: int, stride: int | None = None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields (inputs, targets, keep), each (at most batch, context), of dtype int64, int64 and bool.

    Every id is a kept target once. A document t1 … tn is read as `<eos>` t1 … tn `<eos>`. Windows are adjacent and
    restart at each document; a row is a window, and the column is the position in it. Rows are padded on the right with
    `<eos>`, where `keep` is False. The kept targets are the N ids of `tokens`. With a `stride` a window begins that
    many ids after the previous one, and `keep` is False at targets that an earlier window had.
    """
    if context < 1 or batch < 1:
        raise ValueError(f"held-out windows need context >= 1 and batch >= 1, not {context} and {batch}")
    firsts, counts, starts_document = cut(tokens, context, stride)
    overlap = context - (context if stride is None else stride)
    for row in range(math.ceil(len(firsts) / batch)):
        rows = slice(row * batch, (row + 1) * batch)
        offset = np.arange(context)
        keep = offset < counts[rows, None]
        not_repeated = starts_document[rows, None] | (offset >= overlap)
        positions = firsts[rows, None] + offset
        targets = np.where(keep, tokens.ids[np.minimum(positions, len(tokens) - 1)], tokens.eos).astype(np.int64)
        inputs = np.empty_like(targets)
        inputs[:, 1:] = targets[:, :-1]  # padding follows the `<eos>` of a document, so inputs are `<eos>` there too
        inputs[:, 0] = np.where(starts_document[rows], tokens.eos, tokens.ids[np.maximum(firsts[rows] - 1, 0)])
        yield torch.from_numpy(inputs), torch.from_numpy(targets), torch.from_numpy(keep & not_repeated)


def cut(
    tokens: Tokens, context: int, stride: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Cuts every document into windows of at most `context` targets.

    A window begins `stride` ids after the previous one, by default at its end. Returns three arrays (windows,): the
    index of the first target in `tokens.ids`, the number of targets, and whether the window begins its document, so
    that `<eos>` is its first input. ValueError for a stride below 1 or above the context.
    """
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ValueError(f"a stride is from 1 to the {context:,} tokens of a window, not {stride:,}")
    sizes = tokens.ends - tokens.starts
    counts = 1 + np.maximum(0, -(-(sizes - context) // stride))  # the number of windows of each document
    document = np.repeat(np.arange(tokens.documents), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    firsts = tokens.starts[document] + number * stride
    return firsts, np.minimum(tokens.ends[document] - firsts, context), number == 0
