"""Tokens hidden for a model to predict: the choice of tokens, and what replaces them.

    n = max(1, round(share · T)) of a row's T tokens are chosen, all choices equally likely; of these, token by token,
        80% become the mask, 10% a token drawn from the vocabulary, 10% stay
    spans of mean length m > 1: from random positions on, min(ℓ, 10) tokens, p(ℓ) = (1 - 1/m)^(ℓ-1) / m, until there
        are n; the last is cut, what is chosen already is passed over, and each span becomes one of the three as a whole

Row r of a step is sample step · rows + r of the stream of a key (`probes.draws`), so that it does not depend on how
many rows are asked for at once.

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
"""tokens of a span"""

Bools = npt.NDArray[np.bool_]


def hidden(
    ids: Ints, keep: Bools, *, share: float, vocab: int, mask: int, seed: int, first: int, span: float = 1.0
) -> tuple[Ints, Bools]:
    """The rows (B, T) as a model reads them, and which of their tokens were chosen (B, T).

    Only tokens where `keep` is True are chosen; every row keeps one at least. `vocab` tokens may replace one; `first`
    is the number of the first row; `span` is the mean length of what is chosen together.
    """
    draws = Draws(f"masked tokens {seed}", first, len(ids))
    counts = np.maximum(1, np.rint(share * keep.sum(1)).astype(np.int64))
    numbers = _numbers(draws, keep)
    chosen: Bools = np.argsort(np.argsort(numbers, axis=1, kind="stable"), axis=1, kind="stable") < counts[:, None]
    percent = draws.below(100, ids.shape[1])
    others = draws.below(vocab, ids.shape[1])
    if span > 1:
        starts = _spans(numbers, draws.below(2**32, ids.shape[1]), keep, counts, span)
        chosen = starts >= 0
        percent = np.take_along_axis(percent, np.maximum(starts, 0), 1)
    inputs = np.where(chosen & (percent < MASKED), mask, ids)
    replaced = chosen & (percent >= MASKED) & (percent < MASKED + REPLACED)
    return np.where(replaced, others, inputs), chosen


def _numbers(draws: Draws, keep: Bools) -> npt.NDArray[Any]:
    """A random number for each token (B, T); where tokens are not kept, the largest there is."""
    numbers: npt.NDArray[Any] = draws.bits(keep.shape[1])
    return np.where(keep, numbers >> np.uint64(1), np.iinfo(np.uint64).max)


def _spans(numbers: npt.NDArray[Any], drawn: Ints, keep: Bools, counts: Ints, mean: float) -> Ints:
    """For each token (B, T) where its span begins, -1 outside of all: `counts` (B,) tokens of each row are in one."""
    uniform = (drawn + 0.5) / 2**32
    lengths = np.minimum(1 + np.floor(np.log(uniform) / np.log1p(-1 / mean)), LONGEST).astype(np.int64)
    starts = np.full(keep.shape, -1, np.int64)
    offset = np.arange(keep.shape[1])
    for place in np.argsort(numbers, axis=1, kind="stable").T:
        left = counts - (starts >= 0).sum(1)
        if not left.any():
            break
        length = np.take_along_axis(lengths, place[:, None], 1)
        new = (offset >= place[:, None]) & (offset < place[:, None] + length) & keep & (starts < 0)
        new &= new.cumsum(1) <= left[:, None]
        starts = np.where(new, place[:, None], starts)
    return starts
