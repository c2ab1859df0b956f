"""Masked language modelling: which tokens a model must predict, and what replaces them in its input.

    n = max(1, round(share · T)) of a row's T tokens are chosen, all choices equally likely; of these, token by token,
        80% become the mask, 10% a token drawn from the vocabulary, 10% stay
    spans of mean length m > 1: min(ℓ, 10) tokens from a random position on, p(ℓ) = (1 - 1/m)^(ℓ-1) / m, are chosen
        until there are n; tokens that are chosen already are skipped, the last span is cut to n, and the draw of mask,
        replacement or neither is made once for a whole span

The draws of row r of a step are sample step · rows + r of a stream of random numbers (`probes.draws`), so that they do
not depend on how many rows are made at once.

Source: Devlin et al., BERT, arXiv:1810.04805, section 3.1 and appendix A.1; nothing differs. Spans: Joshi et
al., SpanBERT, arXiv:1907.10529, section 3.1, where m = 5 before the cut at 10; there spans are of whole words.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from seqloom.data.probes.draws import Draws, Ints

MASKED, REPLACED = 80, 10
"""percent of the chosen tokens"""
LONGEST = 10
"""the most tokens of a span"""

Bools = npt.NDArray[np.bool_]


def hide_tokens(
    ids: Ints, keep: Bools, *, share: float, vocab: int, mask: int, seed: int, first: int, span: float = 1.0
) -> tuple[Ints, Bools]:
    """The masked rows (B, T) as a model reads them, and which of their tokens were chosen (B, T).

    ids, keep: (B, T); only tokens where `keep` is True are chosen, and every row has at least one such token. `share`:
    of a row's tokens that are chosen. `vocab`: replacements are ids below it. `mask`: the id of the mask. `first`: the
    sample number of the first row. `span`: the mean length of the spans.
    """
    draws = Draws(f"masked tokens {seed}", first, len(ids))
    counts = np.maximum(1, np.rint(share * keep.sum(1)).astype(np.int64))
    numbers = _numbers(draws, keep)
    chosen: Bools = np.argsort(np.argsort(numbers, axis=1, kind="stable"), axis=1, kind="stable") < counts[:, None]
    percent = draws.below(100, ids.shape[1])
    replacements = draws.below(vocab, ids.shape[1])
    if span > 1:
        starts = _spans(numbers, draws.below(2**32, ids.shape[1]), keep, counts, span)
        chosen = starts >= 0
        percent = np.take_along_axis(percent, np.maximum(starts, 0), 1)
    inputs = np.where(chosen & (percent < MASKED), mask, ids)
    replaced = chosen & (percent >= MASKED) & (percent < MASKED + REPLACED)
    return np.where(replaced, replacements, inputs), chosen


def _numbers(draws: Draws, keep: Bools) -> npt.NDArray[Any]:
    """A random number for each token (B, T); the largest uint64 where a token is not kept."""
    numbers: npt.NDArray[Any] = draws.bits(keep.shape[1])
    return np.where(keep, numbers >> np.uint64(1), np.iinfo(np.uint64).max)


def _spans(numbers: npt.NDArray[Any], drawn: Ints, keep: Bools, counts: Ints, mean: float) -> Ints:
    """For each token (B, T) the position at which its span begins, or -1.

    `counts` (B,) tokens of a row are in spans.
    """
    uniform = (drawn + 0.5) / 2**32
    lengths = np.minimum(1 + np.floor(np.log(uniform) / np.log1p(-1 / mean)), LONGEST).astype(np.int64)
    starts = np.full(keep.shape, -1, np.int64)
    offset = np.arange(keep.shape[1])
    for position in np.argsort(numbers, axis=1, kind="stable").T:
        missing = counts - (starts >= 0).sum(1)
        if not missing.any():
            break
        length = np.take_along_axis(lengths, position[:, None], 1)
        new = (offset >= position[:, None]) & (offset < position[:, None] + length) & keep & (starts < 0)
        new &= new.cumsum(1) <= missing[:, None]
        starts = np.where(new, position[:, None], starts)
    return starts
