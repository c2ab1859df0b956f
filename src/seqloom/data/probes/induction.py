"""Induction: a mark occurs once among random words, and again at the end; the answer is the word after the first mark.

    w3 w1 # w7 w2 w2 … w5 #  → w7            ids: 0 is #, then the words

Source: Fu et al., H3, arXiv:2212.14052, section 3.1, after Olsson et al., arXiv:2209.11895; Gu and Dao, Mamba,
arXiv:2312.00752, section 4.1.2, whose length of 256 and 16 words are difficulty 5 here. Nothing differs.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions, empty


@final
class Induction(Probe):
    """The word that followed the mark before must be predicted after the second mark."""

    name: ClassVar = "induction"
    length: int = Field(ge=3, le=LONGEST, description="tokens of a row")
    words: int = Field(16, ge=2, le=LONGEST, description="different words")

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """16, 32, 64, … tokens."""
        return {"length": 2 ** (difficulty + 3)}

    @property
    @override
    def vocab(self) -> int:
        return 1 + self.words

    @property
    @override
    def row_tokens(self) -> int:
        return self.length

    @property
    @override
    def chance(self) -> float:
        """Words are all equally likely."""
        return 1 / self.words

    @override
    def make_questions(self, draws: Draws) -> Questions:
        last, row = self.length - 1, np.arange(draws.rows)
        tokens, targets, distance = empty(draws.rows, self.length)
        tokens[:] = 1 + draws.below(self.words, self.length)
        mark = draws.below(self.length - 2, 1)[:, 0]
        tokens[row, mark] = tokens[:, last] = 0
        targets[:, last] = tokens[row, mark + 1]
        distance[:, last] = last - (mark + 1)
        return Questions(tokens, targets, distance)
