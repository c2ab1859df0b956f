"""A hidden Markov chain over letters: hidden states follow a Markov chain, and each has its distribution of letters.

    p(z_1 = j) = 1/N,   p(z_t = j | z_{t-1} = i) = a_ij / Σ_j a_ij,   p(x_t = s | z_t = j) = e_js / Σ_s e_js
    e_js = 1 + b³,   a_ij = 1 + b³, then a_ii += 4 Σ_j a_ij                                 b: bytes of SHAKE-256
    α_t(j) = p(x_t | j) Σ_i α_{t-1}(i) p(j | i),      p(x_1 … x_T) = Σ_j α_T(j)                forward algorithm

A hidden state stays the same with a probability above 4/5, so that letters depend on a long past; their entropy rate
has no closed form. The seeds of the bytes are "hmm/N/S/seed/transitions i" and "hmm/N/S/seed/letters j".
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
from seqloom.data.markov.chain import LENGTH, LETTERS, require_letters, require_number

STATES = 64
"""the most hidden states"""


@final
@dataclass(frozen=True)
class HiddenChain:
    """A hidden chain: `transitions[i]` and `letters[j]` are the integer weights a_i· and e_j·."""

    seed: int
    transitions: tuple[tuple[int, ...], ...]
    letters: tuple[tuple[int, ...], ...]

    @property
    def alphabet(self) -> str:
        """The letters of its texts."""
        return LETTERS[: len(self.letters[0])]

    @cached_property
    def moves(self) -> Float64[np.ndarray, "N N"]:
        """p(next state | state): every row sums to 1."""
        return _shares(self.transitions)

    @cached_property
    def writes(self) -> Float64[np.ndarray, "N S"]:
        """p(letter | state): every row sums to 1."""
        return _shares(self.letters)

    def documents(self, count: int) -> Iterator[str]:
        """`count` documents of `LENGTH` letters; document n is a pure function of seed and n.

        ValueError for a negative count.
        """
        require_number(count, 0, 2**31, "the number of documents")
        return (self._document(number) for number in range(count))

    def log_probability(self, text: str) -> float:
        """log p(text) in nats, by the forward algorithm.

        ValueError for an empty text or a letter out of the alphabet.
        """
        digits = require_letters(text, self.alphabet, 1)
        alpha = np.full(len(self.letters), 1 / len(self.letters))
        logs = []
        for i, s in enumerate(digits):
            alpha = (alpha @ self.moves if i else alpha) * self.writes[:, s]
            logs.append(math.log(alpha.sum()))
            alpha = alpha / alpha.sum()
        return math.fsum(logs)

    def _document(self, number: int) -> str:
        name = f"hmm/{len(self.letters)}/{len(self.alphabet)}/{self.seed}/document {number}"
        draws = np.frombuffer(shake_256(name.encode()).digest(16 * LENGTH), dtype=">u8").reshape(LENGTH, 2).tolist()
        text: list[str] = []
        state = 0
        for i, (move, letter) in enumerate(draws):
            state = _draw(self._move_bounds[state], move) if i else move * len(self.letters) >> 64
            text.append(LETTERS[_draw(self._letter_bounds[state], letter)])
        return "".join(text)

    @cached_property
    def _move_bounds(self) -> tuple[tuple[int, ...], ...]:
        """The running sums of the weights of the next hidden state, by hidden state."""
        return tuple(tuple(accumulate(row)) for row in self.transitions)

    @cached_property
    def _letter_bounds(self) -> tuple[tuple[int, ...], ...]:
        """The running sums of the weights of the letters, by hidden state."""
        return tuple(tuple(accumulate(row)) for row in self.letters)


def hidden_chain(states: int, symbols: int, seed: int) -> HiddenChain:
    """The chain of a seed with 2 to 64 hidden states over 2 to 26 letters. ValueError for numbers out of range."""
    require_number(states, 2, STATES, "states of a hidden Markov chain")
    require_number(symbols, 2, len(LETTERS), "symbols of a hidden Markov chain")
    require_seed(seed)
    rows = [_row(f"hmm/{states}/{symbols}/{seed}/transitions {i}", states) for i in range(states)]
    transitions = [[w + (4 * sum(row) if i == j else 0) for j, w in enumerate(row)] for i, row in enumerate(rows)]
    letters = tuple(tuple(_row(f"hmm/{states}/{symbols}/{seed}/letters {j}", symbols)) for j in range(states))
    return HiddenChain(seed, tuple(map(tuple, transitions)), letters)


def _row(name: str, count: int) -> list[int]:
    return [1 + byte**3 for byte in shake_256(name.encode()).digest(count)]


def _draw(bounds: tuple[int, ...], draw: int) -> int:
    """The index in whose interval of the running sums the 64-bit number `draw` falls."""
    return bisect_right(bounds, draw * bounds[-1] >> 64)


def _shares(rows: tuple[tuple[int, ...], ...]) -> Float64[np.ndarray, "N M"]:
    weights = np.array(rows, dtype=np.float64)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
