"""Parity: after each bit, whether the number of ones so far is odd.

    1 0 1 1 0  → 1 1 0 1 1            ids: the bits; the first position is not scored, its answer is its own bit

The answer depends on every bit so far, so the distance of a question is to the first bit. A recurrence needs one bit of
state; a softmax, or a recurrence with positive decays, has to count. Source: Hahn, arXiv:1906.06755. What differs:
every position asks; Delétang et al., arXiv:2207.02098, ask at the end only.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions


@final
class Parity(Probe):
    """The parity of all bits so far must be predicted at every position."""

    name: ClassVar = "parity"
    length: int = Field(ge=2, le=LONGEST, description="bits of a row")

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """8, 16, 32, … bits."""
        return {"length": 2 ** (difficulty + 2)}

    @property
    @override
    def vocab(self) -> int:
        return 2

    @property
    @override
    def row_tokens(self) -> int:
        return self.length

    @property
    @override
    def chance(self) -> float:
        """As long as one bit is unknown, both answers are equally likely."""
        return 1 / 2

    @override
    def make_questions(self, draws: Draws) -> Questions:
        bits = draws.below(2, self.length)
        odd = np.cumsum(bits, axis=1) % 2
        odd[:, 0] = 0  # not scored
        return Questions(bits, odd, np.broadcast_to(np.arange(self.length), bits.shape).copy())
