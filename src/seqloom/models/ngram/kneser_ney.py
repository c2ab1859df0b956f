"""Interpolated modified Kneser-Ney, counted and queried with sorted integer tables.

    p_m(w | h) = max(c(h w) - D(c(h w)), 0) / c(h ·) + γ(h) p_{m-1}(w | h'),    h' = h without its first token
    γ(h) = (D_1 N_1(h ·) + D_2 N_2(h ·) + D_3 N_3+(h ·)) / c(h ·),              p_0(w) = 1 / W
    D_j = j - (j + 1) Y n_{j+1} / n_j,  Y = n_1 / (n_1 + 2 n_2),  j = 1, 2, 3;  D(c) = D_min(c, 3)

c counts tokens at the highest order n, and below it the distinct tokens that stand before the m-gram: see `grams`.

Source: Chen and Goodman, An Empirical Study of Smoothing Techniques for Language Modeling, TR-10-98 (1998), sections 3
and 4.1. Differs from it: where an order has too few counts for D_1 … D_3 to lie in 0 … j, they are 0.5, 1, 1.5.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int, Int64

from seqloom.models.ngram.grams import grams, require_ids

FALLBACK = (0.5, 1.0, 1.5)


@final
@dataclass(frozen=True)
class Order:
    """The m-grams of one order. Entry g is prefix · (W + 1) + last token, prefix an entry of the order below."""

    keys: Int64[np.ndarray, " grams"]
    probabilities: Float64[np.ndarray, " grams"]
    backoffs: Float64[np.ndarray, " grams"]
    discounts: tuple[float, float, float]


@final
@dataclass(frozen=True)
class KneserNey:
    """The estimates of orders 1 to n: `orders[0]` has every token of the vocabulary and the begin symbol."""

    vocab: int
    orders: tuple[Order, ...]

    def log_probabilities(self, ids: Int64[np.ndarray, " T"], begin: bool = True) -> Float64[np.ndarray, " T"]:
        """Natural log p(token | the n - 1 before it); with `begin`, begin symbols stand before the first.

        ValueError for ids outside the vocabulary.
        """
        require_ids(ids, self.vocab)
        begin_symbols = len(self.orders) - 1 if begin else 0
        text = np.concatenate([np.full(begin_symbols, self.vocab), ids]).astype(np.int64)
        entries = text  # of the m-gram that ends at each position; -1 where the counted text does not have it
        p = self.orders[0].probabilities[text]
        for shorter, order in zip(self.orders, self.orders[1:], strict=False):
            ends = np.flatnonzero(entries[:-1] >= 0)  # of contexts that were counted; elsewhere p stays
            contexts = entries[ends]
            tokens = ends + 1  # the positions after them
            longer = _find(order.keys, contexts * (self.vocab + 1) + text[tokens])
            p[tokens] = np.where(longer < 0, shorter.backoffs[contexts] * p[tokens], order.probabilities[longer])
            entries = np.full(len(text), -1)
            entries[tokens] = longer
        return np.asarray(np.log(p[begin_symbols:]))

    def arpa(self, words: Sequence[str]) -> Iterator[str]:
        """The lines of an ARPA file, logarithms to base 10; `words` has the text of every token, without spaces.

        ValueError where the words are not as many as the vocabulary has, and where one is empty, repeated, spaced, or
        `<s>`, which marks the beginning.
        """
        if len(words) != self.vocab or len(set(words)) != self.vocab:
            raise ValueError(f"an ARPA file needs {self.vocab} different words, got {len(set(words))} of {len(words)}")
        if wrong := [word for word in words if word.split() != [word]]:
            raise ValueError(f"{wrong[0]!r} is empty or has a space, so an ARPA file cannot hold it")
        if "<s>" in words:
            raise ValueError("the tokenizer has a token '<s>', by which an ARPA file marks the beginning of a text")
        markers = [word for word in ("<unk>", "</s>") if word not in words]  # which readers of such files expect
        yield "\\data\\"
        for m, order in enumerate(self.orders, 1):
            yield f"ngram {m}={len(order.keys) + len(markers) * (m == 1)}"
        tokens = [*words, "<s>"]
        grams = tokens
        for m, order in enumerate(self.orders, 1):
            yield f"\n\\{m}-grams:"
            if m == 1:
                yield from (f"-99\t{word}" for word in markers)
            else:
                prefixes, last = np.divmod(order.keys, self.vocab + 1)
                grams = [f"{grams[i]} {tokens[j]}" for i, j in zip(prefixes.tolist(), last.tolist(), strict=True)]
            with np.errstate(divide="ignore"):
                logs = np.maximum(np.log10(order.probabilities), -99).tolist()
            backs = np.log10(order.backoffs).tolist()
            for gram, log, back in zip(grams, logs, backs, strict=True):
                yield f"{log:.9g}\t{gram}" + (f"\t{back:.9g}" if m < len(self.orders) else "")
        yield "\n\\end\\"


def kneser_ney(ids: Int64[np.ndarray, " T"], order: int, vocab: int) -> KneserNey:
    """Counts a text once and estimates orders 1 to `order` (at most 8). Raises ValueError as `grams` does."""
    counted = grams(ids, order, vocab)
    continuations = [  # of each gram below the highest order: how many different tokens stand before it
        np.bincount(suffixes, minlength=len(keys))
        for keys, suffixes in zip(counted.keys, counted.suffixes, strict=False)
    ]
    return _estimate_counts(counted.keys, counted.suffixes, [*continuations, counted.counts[-1]], vocab)


def discounts(counts: Int[np.ndarray, " grams"]) -> tuple[float, float, float]:
    """D_1, D_2, D_3 of an order from its counts, or 0.5, 1, 1.5 where these do not give values in (0, j].

    A discount of 0 would leave nothing for the tokens that never followed: their probability would be 0.
    """
    n = [0, *(int((counts == j).sum()) for j in (1, 2, 3, 4))]
    if not all(n[1:4]):
        return FALLBACK
    y = n[1] / (n[1] + 2 * n[2])
    one, two, three = (j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3))
    in_range = 0 < one <= 1 and 0 < two <= 2 and 0 < three <= 3
    return (one, two, three) if in_range else FALLBACK


def _estimate_counts(
    keys: list[np.ndarray], suffixes: list[np.ndarray], counts: list[np.ndarray], vocab: int
) -> KneserNey:
    """The estimates from keys, suffixes and the counts c(h w) of each order; those of begin symbols do not count."""
    orders: list[Order] = []
    p = np.full(vocab + 1, 1 / vocab)
    contexts = 1
    for m, (key, gram_counts) in enumerate(zip(keys, counts, strict=True)):
        prefixes, last = np.divmod(key, vocab + 1)
        count = np.where(last == vocab, 0, gram_counts)
        order_discounts = discounts(count)
        discount = np.array([0.0, *order_discounts])[np.minimum(count, 3)]
        total = np.bincount(prefixes, count, contexts)  # c(h ·)
        discounted = np.bincount(prefixes, discount, contexts)
        gamma = np.divide(discounted, total, out=np.ones(contexts), where=total > 0)
        share = np.divide(count - discount, total[prefixes], out=np.zeros(len(key)), where=total[prefixes] > 0)
        lower_p = p if m == 0 else p[suffixes[m - 1]]
        p = np.where(last == vocab, 0.0, share + gamma[prefixes] * lower_p)
        if orders:
            orders[-1].backoffs[:] = gamma
        orders.append(Order(key, p, np.ones(len(key)), order_discounts))
        contexts = len(key)
    return KneserNey(vocab, tuple(orders))


def _find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The index of each wanted key, or -1. Searched in sorted order, since neighbors share cache lines."""
    order = np.argsort(wanted)
    index = np.empty_like(order)
    index[order] = np.minimum(np.searchsorted(keys, wanted[order]), len(keys) - 1)
    return np.where(keys[index] == wanted, index, -1)
