"""Permutations: after each permutation of n things, the composition of all permutations so far.

    p1 p2 p3 …  → p1, p2∘p1, p3∘p2∘p1, …        ids: the n! permutations of n things in lexicographic order;
                                                 the first position is not scored, its answer is its own token

This is the word problem of the symmetric group S_n. S_5 is not a solvable group, and a model whose state only decays or
sums cannot track it at every length. The answer depends on every permutation so far, so the distance of a question is
to the first one. Source: Merrill et al., The Illusion of State in State-Space Models, arXiv:2404.08819; Grazzi et al.,
arXiv:2411.12537; every position asks, as there.
"""

from functools import cached_property
from itertools import permutations
from math import factorial
from typing import ClassVar, final

import numpy as np
from pydantic import Field
from typing_extensions import override

from seqloom.data.probes.draws import Draws, Ints
from seqloom.data.probes.probe import LONGEST, Probe, Questions


@final
class Permutations(Probe):
    """The composition of all permutations so far must be predicted at every position."""

    name: ClassVar = "permutations"
    length: int = Field(ge=2, le=LONGEST, description="permutations of a row")
    things: int = Field(5, ge=2, le=5, description="things that are permuted")

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

    @property
    @override
    def chance(self) -> float:
        """As long as one permutation is unknown, all compositions are equally likely."""
        return 1 / self.vocab

    @cached_property
    def after(self) -> Ints:
        """(n!, n!): the id of p∘q, in row p and column q."""
        orders = list(permutations(range(self.things)))
        ids = {order: number for number, order in enumerate(orders)}
        return np.array([[ids[tuple(p[index] for index in q)] for q in orders] for p in orders])

    @override
    def drawn(self, draws: Draws) -> Questions:
        tokens = draws.below(self.vocab, self.length)
        composed = tokens.copy()
        for position in range(1, self.length):
            composed[:, position] = self.after[tokens[:, position], composed[:, position - 1]]
        composed[:, 0] = 0
        return Questions(tokens, composed, np.broadcast_to(np.arange(self.length), tokens.shape).copy())
