"""Selective copying: words at random positions among blanks, then questions whose answers are the words in order.

    · w3 · · w1 w7 · ? ? ?  → w3 w1 w7            ids: 0 is ·, 1 is ?, then the words

The positions of the words differ between rows, so that no fixed tap of a convolution finds them. Source: Gu and Dao,
Mamba, arXiv:2312.00752, section 4.1.1 (16 words in 4,096 tokens); Poli et al., MAD, arXiv:2403.17844. Nothing differs
but the sizes.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions, empty

ASK = 1


@final
class SelectiveCopying(Probe):
    """The words of a sequence must be repeated in order, without the blanks between them."""

    name: ClassVar = "selective-copying"
    count: int = Field(ge=1, description="words to be copied")
    length: int = Field(ge=1, le=LONGEST, description="positions that the words are distributed over")
    words: int = Field(16, ge=2, le=LONGEST, description="different words")

    @model_validator(mode="after")
    def _fits(self) -> "SelectiveCopying":
        if self.length < self.count:
            raise ValueError(f"{self.count} words need a length of {self.count} or more")
        return self

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """4, 8, 16, … words among four times as many positions."""
        count = 2 ** (difficulty + 1)
        return {"count": count, "length": 4 * count}

    @property
    @override
    def vocab(self) -> int:
        return 2 + self.words

    @property
    @override
    def row_tokens(self) -> int:
        return self.length + self.count

    @property
    @override
    def chance(self) -> float:
        """Words are all equally likely."""
        return 1 / self.words

    @override
    def make_questions(self, draws: Draws) -> Questions:
        words = 2 + draws.below(self.words, self.count)
        positions = np.sort(draws.draw_distinct(self.length, self.count), axis=1)
        tokens, targets, distance = empty(draws.rows, self.row_tokens)
        tokens[np.arange(draws.rows)[:, None], positions] = words
        tokens[:, self.length :] = ASK
        targets[:, self.length :] = words
        distance[:, self.length :] = np.arange(self.length, self.row_tokens) - positions
        return Questions(tokens, targets, distance)
