"""Permutations and swaps: after each of them, the composition of all so far.

    p1 p2 p3 …  → p1, p2∘p1, p3∘p2∘p1, …        ids: the n! permutations of n things in lexicographic order;
                                                 the first position is not scored, its answer is its own token

This is the word problem of the symmetric group S_n. S_5 is not a solvable group, and a model whose state only decays or
sums cannot track it at every length. In `permutations` any of them may come next, in `swaps` those alone that exchange
two things, which are reflections: one step of a delta rule whose β reaches 2 can make one. The answer depends on every
token so far, so the distance of a question is to the first one. Source: Merrill et al., The Illusion of State in
State-Space Models, arXiv:2404.08819; Grazzi et al., arXiv:2411.12537; every position asks, as there.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from itertools import permutations
from math import factorial
from typing import ClassVar, final

import numpy as np
from pydantic import Field
from typing_extensions import override

from seqloom.data.probes.draws import Draws, Ints
from seqloom.data.probes.probe import LONGEST, Probe, Questions


class Compositions(Probe, ABC):
    """The composition of all permutations so far must be predicted at every position."""

    length: int = Field(ge=2, le=LONGEST, description="permutations of a row")
    things: int = Field(5, ge=2, le=5, description="things that are permuted")

    @property
    @abstractmethod
    def moves(self) -> Ints:
        """The ids of the permutations that are drawn, all equally likely."""

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """8, 16, 32, … permutations."""
        return {"length": 2 ** (difficulty + 2)}

    @property
    @override
    def vocab(self) -> int:
        return factorial(self.things)

    @property
    @override
    def row_tokens(self) -> int:
        return self.length

    @cached_property
    def orders(self) -> Ints:
        """(n!, n): the permutations, each as the things in their new order."""
        return np.array(list(permutations(range(self.things))))

    @cached_property
    def after(self) -> Ints:
        """(n!, n!): the id of p∘q, in row p and column q."""
        ids = {tuple(order): number for number, order in enumerate(self.orders)}
        return np.array([[ids[tuple(p[q])] for q in self.orders] for p in self.orders])

    @override
    def make_questions(self, draws: Draws) -> Questions:
        moves = self.moves
        tokens = moves[draws.below(len(moves), self.length)]
        composed = tokens.copy()
        for position in range(1, self.length):
            composed[:, position] = self.after[tokens[:, position], composed[:, position - 1]]
        composed[:, 0] = 0
        return Questions(tokens, composed, np.broadcast_to(np.arange(self.length), tokens.shape).copy())


@final
class Permutations(Compositions):
    """Any of the n! permutations may come next."""

    name: ClassVar = "permutations"

    @property
    @override
    def moves(self) -> Ints:
        return np.arange(self.vocab)

    @property
    @override
    def chance(self) -> float:
        """As long as one permutation is unknown, all compositions are equally likely."""
        return 1 / self.vocab


@final
class Swaps(Compositions):
    """Those alone come next that exchange two things, of 3 or more."""

    name: ClassVar = "swaps"
    things: int = Field(5, ge=3, le=5, description="things of which two are exchanged")

    @cached_property
    @override
    def moves(self) -> Ints:
        return np.flatnonzero((self.orders != np.arange(self.things)).sum(1) == 2)

    @cached_property
    @override
    def chance(self) -> float:
        """The probability of the likeliest composition, given the last swap and how many came before it."""
        share = np.zeros(self.vocab)
        share[0] = 1.0
        likeliest = []
        for _ in range(self.length - 1):
            share = share[self.after[self.moves]].mean(0)  # a swap is its own inverse
            likeliest.append(share.max())
            if likeliest[-1] < (1 + 1e-9) * 2 / self.vocab:  # from here on all of one parity are equally likely
                likeliest += [2 / self.vocab] * (self.length - 1 - len(likeliest))
                break
        return float(np.mean(likeliest))
