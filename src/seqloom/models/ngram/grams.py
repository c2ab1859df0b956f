"""The n-grams of a text, in sorted integer tables of each order.

    key of an m-gram = entry of its first m - 1 tokens · (W + 1) + its last token        an entry: where its key stands

n - 1 begin symbols (id W) stand before the text, so that every m-gram has one before it; they are never predicted.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int32, Int64

MOST = 8
"""tokens of the longest n-gram"""


@final
@dataclass(frozen=True)
class Grams:
    """The m-grams of orders 1 … n, in the order of their keys; of order 1 all tokens and the begin symbol."""

    keys: list[Int64[np.ndarray, " _"]]
    suffixes: list[Int64[np.ndarray, " _"]]
    """from order 2: the entry, one order below, of each m-gram without its first token"""
    counts: list[Int32[np.ndarray, " _"]]
    """how often the text has each"""


def grams(ids: Int64[np.ndarray, " T"], order: int, vocab: int) -> Grams:
    """The n-grams of a text, of orders 1 to `order` (at most 8); time T log T per order.

    ValueError for an order that is none or above the text, and for ids outside the vocabulary.
    """
    if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= MOST:
        raise ValueError(f"the order of n-grams must be a whole number of 1 … {MOST}, got {order!r}")
    if isinstance(vocab, bool) or not isinstance(vocab, int) or not 1 <= vocab < 2**31:
        raise ValueError(f"vocab must be a whole number of 1 … 2^31 - 1, got {vocab!r}")
    require_ids(ids, vocab)
    if len(ids) < order:
        raise ValueError(f"order {order} is above the text, which has {len(ids)} tokens; lower the order")
    text = np.concatenate([np.full(order - 1, vocab), ids]).astype(np.int64)
    keys = [np.arange(vocab + 1)]
    suffixes = []
    counts = [np.bincount(ids, minlength=vocab + 1).astype(np.int32)]
    entries = text
    for m in range(2, order + 1):
        pairs = entries[:-1] * (vocab + 1) + text[m - 1 :]
        unique, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
        keys.append(unique)
        suffixes.append(entries[1:][first])
        entries = inverse.reshape(-1)  # of the m-gram that begins at each position of the text
        counts.append(np.bincount(entries, minlength=len(unique)).astype(np.int32))
    return Grams(keys, suffixes, counts)


def require_ids(ids: np.ndarray, vocab: int) -> None:
    """Raises ValueError unless the ids are those of a text over the vocabulary."""
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError("the ids of a text are a NumPy array of whole numbers with one dimension")
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
        raise ValueError(f"ids must be of 0 … {vocab - 1}, got {int(ids.min())} … {int(ids.max())}")
