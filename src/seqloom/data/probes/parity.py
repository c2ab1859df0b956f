"""Parity: after each bit, whether the ones so far are odd in number.

    1 0 1 1 0  → 1 1 0 1 1            ids: the bits; the first position asks nothing that is not in its own bit

Every bit so far matters, so that the distance of a question is that of the first. A recurrence needs one bit of state;
a softmax, or positive decays, must count. Source: Hahn, arXiv:1906.06755; asked at every position as in Delétang et
al., arXiv:2207.02098, they ask at the end.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions


@final
class Parity(Probe):
    """Odd or even?"""

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
        """Without a single one of the bits, both answers are equally likely."""
        return 1 / 2

    @override
    def drawn(self, draws: Draws) -> Questions:
        bits = draws.below(2, self.length)
        odd = np.cumsum(bits, axis=1) % 2
        odd[:, 0] = 0
        return Questions(bits, odd, np.broadcast_to(np.arange(self.length), bits.shape).copy())
