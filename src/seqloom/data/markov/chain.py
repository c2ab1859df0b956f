"""A Markov chain over letters: p(s | the last k letters), drawn from a seed, and its entropy rate.

    p(s | c) = w_s / Σ w,  w_s = 1 + b_s³,  b = bytes of SHAKE-256("markov/S/k/seed/context")     s of S letters
    π(c' s) = Σ_a π(a c') p(s | a c'),      H = -Σ_c π(c) Σ_s p(s | c) log p(s | c)               nats per letter

With variable order, p(s | c) is the row of the latest j letters of c alone, for the smallest j < k for which one more
byte of SHAKE-256 for these letters is even, where there is such a j (Bühlmann and Wyner 1999, section 2). j = 0, and
letters that are all an a, are excluded, so that some row needs all k letters. All weights are positive, so π exists and
is unique.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import shake_256
from itertools import accumulate
from typing import final

import numpy as np
from jaxtyping import Float64

from seqloom.core.seeds import require_seed

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LENGTH = 1000
"""letters of a document"""
_CONTEXTS = 2**16


@final
@dataclass(frozen=True)
class Chain:
    """A chain of order `order` over the first letters of the alphabet.

    `weights[c]` holds the integer weights of the letters after context c: p(s | c) times their sum. The number c has
    the letters of the context as its digits, the latest letter last.
    """

    seed: int
    order: int
    weights: tuple[tuple[int, ...], ...]

    @property
    def states(self) -> int:
        """The number of letters, 2 to 26."""
        return len(self.weights[0])

    @property
    def alphabet(self) -> str:
        """The letters that it writes."""
        return LETTERS[: self.states]

    @cached_property
    def probabilities(self) -> Float64[np.ndarray, "contexts states"]:
        """p(s | c): every row sums to 1."""
        weights = np.array(self.weights, dtype=np.float64)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    @cached_property
    def stationary(self) -> Float64[np.ndarray, " contexts"]:
        """π(c), the stationary probability of each context, iterated until its total change is below 1e-14."""
        contexts = len(self.weights)
        pi = np.full(contexts, 1 / contexts)
        while True:
            next_pi = (pi[:, None] * self.probabilities).reshape(self.states, contexts).sum(axis=0)
            next_pi /= next_pi.sum()
            if np.abs(next_pi - pi).sum() < 1e-14:
                return np.asarray(next_pi)
            pi = next_pi

    @property
    def entropy_rate(self) -> float:
        """H in nats per letter, the mean of -log p(s | c) over an infinite text: no model has a lower loss on it."""
        p = self.probabilities
        return float(-(self.stationary * (p * np.log(p)).sum(axis=1)).sum())

    def documents(self, count: int) -> Iterator[str]:
        """`count` documents of `LENGTH` letters, which begin with `order` uniform letters and then follow the chain.

        Document n is a pure function of seed and n. ValueError for a negative count.
        """
        require_number(count, 0, 2**31, "the number of documents")
        return (self._document(number) for number in range(count))

    def log_probability(self, text: str) -> float:
        """Σ log p(letter | the `order` letters before it) in nats, over all letters but the first `order`.

        ValueError where the text is not longer than the order, or has a letter that is not in the alphabet.
        """
        digits = require_letters(text, self.alphabet, self.order + 1)
        context, log_p = 0, []
        for i, s in enumerate(digits):
            if i >= self.order:
                log_p.append(math.log(self.probabilities[context, s]))
            context = (context * self.states + s) % len(self.weights)
        return math.fsum(log_p)

    def _document(self, number: int) -> str:
        contexts, states = len(self.weights), self.states
        name = f"markov/{states}/{self.order}/{self.seed}/document {number}"
        draws = np.frombuffer(shake_256(name.encode()).digest(8 * LENGTH), dtype=">u8").tolist()
        text, context = [], 0
        for i, draw in enumerate(draws):
            bounds = self._bounds[context]
            s = draw * states >> 64 if i < self.order else bisect_right(bounds, draw * bounds[-1] >> 64)
            text.append(LETTERS[s])
            context = (context * states + s) % contexts
        return "".join(text)

    @cached_property
    def _bounds(self) -> tuple[tuple[int, ...], ...]:
        """The running sums of the weights of each context."""
        return tuple(tuple(accumulate(row)) for row in self.weights)


def chain(states: int, order: int, seed: int, *, variable: bool = False) -> Chain:
    """The chain of a seed over `states` letters (2 to 26), of order `order`, or of at most that order if `variable`.

    ValueError for numbers out of range, and where there are more than 65,536 contexts (states^order).
    """
    require_number(states, 2, len(LETTERS), "states of a Markov chain")
    require_number(order, 0, 16, "order of a Markov chain")
    require_seed(seed)
    if not isinstance(variable, bool):
        raise ValueError(f"variable must be true or false, got {variable!r}")
    if states**order > _CONTEXTS:
        raise ValueError(f"{states} states of order {order} have {states**order:,} contexts; at most {_CONTEXTS:,}")
    rows = {}
    for context in range(states**order):
        letters = _letters(context, states, order)
        if variable:
            letters = _relevant_letters(states, order, seed, letters)
        rows[context] = _row(states, order, seed, letters)
    return Chain(seed, order, tuple(rows.values()))


def require_number(value: int, least: int, most: int, word: str) -> None:
    """Raises ValueError unless the value is a whole number of `least` … `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{word} must be a whole number of {least} … {most}, got {value!r}")


def require_letters(text: str, alphabet: str, least: int) -> list[int]:
    """The numbers of a text's letters. ValueError where it has fewer than `least`, or one outside the alphabet."""
    if not isinstance(text, str) or len(text) < least:
        raise ValueError(f"pass a text of at least {least} letters for this chain")
    if foreign := next((letter for letter in text if letter not in alphabet), None):
        raise ValueError(f"{foreign!r} is no letter of the chain, which writes {alphabet}")
    return [alphabet.index(letter) for letter in text]


def _letters(context: int, states: int, order: int) -> str:
    return "".join(LETTERS[context // states**back % states] for back in reversed(range(order)))


def _bytes(states: int, order: int, seed: int, letters: str) -> bytes:
    return shake_256(f"markov/{states}/{order}/{seed}/{letters}".encode()).digest(states + 1)


def _row(states: int, order: int, seed: int, letters: str) -> tuple[int, ...]:
    return tuple(1 + byte**3 for byte in _bytes(states, order, seed, letters)[:states])


def _relevant_letters(states: int, order: int, seed: int, letters: str) -> str:
    """The latest letters of a context of k letters on which the next letter depends."""
    for length in range(1, order):
        latest = letters[order - length :]
        if set(latest) != {LETTERS[0]} and _bytes(states, order, seed, latest)[states] % 2 == 0:
            return latest
    return letters
