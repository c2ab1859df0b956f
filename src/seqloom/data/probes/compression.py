"""Compression: words, then a mark; all words must be reconstructed from the stream at the mark alone.

    w3 w1 w7 w2 #  | ? ? ? ?  → w3 w1 w7 w2            ids: 0 is #, 1 is ?, then the words

The mixer reads nothing after the mark #. A network that is given the stream at the mark and the number of a word must
predict this word. The distance of a question is from the word to the mark. Source: Poli et al., MAD, arXiv:2403.17844,
and its code. Nothing differs but the sizes.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions, empty

ASK = 1


@final
class Compression(Probe):
    """All tokens of a sequence must be predicted from the channels of one position."""

    name: ClassVar = "compression"
    count: int = Field(ge=1, le=LONGEST // 4, description="words to be compressed into one position")
    words: int = Field(16, ge=2, le=LONGEST, description="different words")

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """4, 8, 16, … words."""
        return {"count": 2 ** (difficulty + 1)}

    @property
    @override
    def vocab(self) -> int:
        return 2 + self.words

    @property
    @override
    def row_tokens(self) -> int:
        return 2 * self.count + 1

    @property
    @override
    def chance(self) -> float:
        """Words are all equally likely."""
        return 1 / self.words

    @property
    @override
    def summary(self) -> int:
        """The position of the mark."""
        return self.count

    @override
    def make_questions(self, draws: Draws) -> Questions:
        mark = self.count
        tokens, targets, distance = empty(draws.rows, self.row_tokens)
        tokens[:, :mark] = targets[:, mark + 1 :] = 2 + draws.below(self.words, self.count)
        tokens[:, mark + 1 :] = ASK
        distance[:, mark + 1 :] = mark - np.arange(self.count)
        return Questions(tokens, targets, distance)
