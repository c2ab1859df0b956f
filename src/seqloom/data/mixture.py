"""Windows of several sources with weights: the source of a sample, and its window there, by (seed, step) alone.

    deck        10,000 samples, n_i = 10,000 w_i / Σ w of source i (largest remainders), shuffled by (seed, deck)
    sample s    in deck k = s // 10,000; where r samples of it before s are of the same source i, it is sample k n_i + r
                of that source's own shuffled windows (module `windows`)

So each source is read without replacement, at its own pace, and a resumed run needs only its step.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.data.permutation import permute
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows

DECK = 10_000
"""samples after which the shares of the sources are exact"""


@final
class Mixture:
    """The windows of several sources, mixed by weight."""

    def __init__(self, windows: Sequence[Windows], weights: Sequence[float], seed: int) -> None:
        self._windows = windows
        self._seed = seed
        self._counts = deal_cards(weights)

    def batch(self, step: int, batch: int) -> Int[Tensor, "B W"]:
        """The windows of one step, counted from 0: int64."""
        source, number = self.samples(step, batch)
        rows: list[Tensor] = [torch.empty(0)] * batch
        for index in np.unique(source):
            chosen = np.flatnonzero(source == index)
            for row, window in zip(chosen, self._windows[index].samples(number[chosen]), strict=True):
                rows[row] = window
        return torch.stack(rows)

    def samples(self, step: int, batch: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """For each row of a step its source, and the number of the sample in it: (batch,) each."""
        if step < 0 or batch < 1:
            raise ValueError(f"a batch needs step >= 0 and batch >= 1, not {step} and {batch}")
        sample = np.arange(step * batch, (step + 1) * batch)
        source = np.empty(batch, np.int64)
        number = np.empty(batch, np.int64)
        for deck in np.unique(sample // DECK):
            rows = np.flatnonzero(sample // DECK == deck)
            deck_sources, ranks = _shuffle(tuple(self._counts.tolist()), int(deck), self._seed)
            source[rows] = deck_sources[sample[rows] % DECK]
            number[rows] = deck * self._counts[source[rows]] + ranks[sample[rows] % DECK]
        return source, number


@lru_cache(maxsize=4)
def _shuffle(counts: tuple[int, ...], deck: int, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each sample of a deck its source, and how many before it are of the same source: (DECK,) each."""
    ends = np.cumsum(counts)
    source = np.searchsorted(ends, permute(np.arange(DECK), deck, DECK, seed), side="right")
    order = np.argsort(source, kind="stable")
    rank = np.empty(DECK, np.int64)
    rank[order] = np.arange(DECK) - (ends - np.array(counts))[source[order]]
    return source, rank


def deal_cards(weights: Sequence[float]) -> npt.NDArray[np.int64]:
    """How many samples of a deck each source has. ValueError where it is none."""
    shares = DECK * np.array(weights, np.float64) / sum(weights)
    counts = np.floor(shares).astype(np.int64)
    largest = np.argsort(counts - shares, kind="stable")[: DECK - int(counts.sum())]
    counts[largest] += 1
    if not counts.all():
        least = min(weights)
        raise ValueError(f"a weight of {least:g} is less than a sample in {DECK:,}: leave the source out")
    return counts


def windows_of(
    tokens: Tokens, context: int, seed: int, within_documents: bool = False, disjoint: bool = False
) -> Windows | Mixture:
    """The windows of a text, of which each source is read by its weight if it has several. Raises as `Windows`."""
    if not tokens.sources:
        return Windows(tokens, context, seed, within_documents, disjoint)
    windows = [Windows(part, context, seed, within_documents, disjoint) for part in tokens.by_source()]
    return Mixture(windows, [weight for _, weight in tokens.sources], seed)
