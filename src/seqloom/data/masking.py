"""Tokens hidden for a model to predict: the choice of tokens, and what replaces them.

    n = max(1, round(share · T)) of a row's T tokens are chosen, all choices equally likely; of these, token by token,
        80% become the mask, 10% a token drawn from the vocabulary, 10% stay

Row r of a step is sample step · rows + r of the stream of a key (`probes.draws`), so that it does not depend on how
many rows are asked for at once.

Source: Devlin et al., BERT, arXiv:1810.04805, section 3.1 and appendix A.1; nothing differs.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from seqloom.data.probes.draws import Draws, Ints

MASKED, REPLACED = 80, 10
"""percent of the chosen tokens"""

Bools = npt.NDArray[np.bool_]


def hidden(ids: Ints, keep: Bools, *, share: float, vocab: int, mask: int, seed: int, first: int) -> tuple[Ints, Bools]:
    """The rows (B, T) as a model reads them, and which of their tokens were chosen (B, T).

    Only tokens where `keep` is True are chosen; every row keeps one at least. `vocab` tokens may replace one; `first`
    is the number of the first row.
    """
    draws = Draws(f"masked tokens {seed}", first, len(ids))
    chosen = _chosen(draws, keep, share)
    percent = draws.below(100, ids.shape[1])
    others = draws.below(vocab, ids.shape[1])
    inputs = np.where(chosen & (percent < MASKED), mask, ids)
    replaced = chosen & (percent >= MASKED) & (percent < MASKED + REPLACED)
    return np.where(replaced, others, inputs), chosen


def _chosen(draws: Draws, keep: Bools, share: float) -> Bools:
    """For each row max(1, round(share · length)) of its kept tokens: those with the smallest draws."""
    numbers: npt.NDArray[Any] = draws.bits(keep.shape[1])
    numbers = np.where(keep, numbers >> np.uint64(1), np.iinfo(np.uint64).max)
    rank = np.argsort(np.argsort(numbers, axis=1, kind="stable"), axis=1, kind="stable")
    counts = np.maximum(1, np.rint(share * keep.sum(1)).astype(np.int64))
    chosen: Bools = rank < counts[:, None]
    return chosen
