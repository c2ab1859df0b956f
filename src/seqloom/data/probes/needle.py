"""Needles in a haystack: pairs of key and value in a long text of random words; at its end the keys are asked for.

    w9 w3 k2 v5 w1 w1 … w4 k7 v2 w8 … w6 k7 k2  → v2 v5            ids: the keys, then the values, then the words

The keys of a row are different, and are asked for in random order. Source: the task with several queries of Hsieh et
al., RULER, arXiv:2404.06654, after Kamradt's test. What differs: there the text is English, and needles are sentences.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions, empty


@final
class Needle(Probe):
    """The values of a few keys must be recalled after a long text."""

    name: ClassVar = "needle"
    length: int = Field(ge=3, le=LONGEST, description="tokens of a row")
    needles: int = Field(4, ge=1, description="pairs in the text; every key is asked for once")
    keys: int = Field(8, ge=1, le=LONGEST, description="different keys")
    values: int = Field(8, ge=2, le=LONGEST, description="different values")
    words: int = Field(8, ge=1, le=LONGEST, description="different words of the haystack")

    @model_validator(mode="after")
    def _fits(self) -> "Needle":
        if self.keys < self.needles:
            raise ValueError(f"{self.needles} needles need as many keys, and there are {self.keys}")
        if self.length < 3 * self.needles:
            raise ValueError(f"{self.needles} needles and their questions need a length of {3 * self.needles} or more")
        return self

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """16, 32, 64, … tokens."""
        return {"length": 2 ** (difficulty + 3)}

    @property
    @override
    def vocab(self) -> int:
        return self.keys + self.values + self.words

    @property
    @override
    def row_tokens(self) -> int:
        return self.length

    @property
    @override
    def chance(self) -> float:
        """Values are independent and all equally likely."""
        return 1 / self.values

    @override
    def make_questions(self, draws: Draws) -> Questions:
        first_question = self.length - self.needles
        row = np.arange(draws.rows)[:, None]
        keys = draws.draw_distinct(self.keys, self.needles)
        values = self.keys + draws.below(self.values, self.needles)
        gaps = np.sort(draws.draw_distinct(first_question - self.needles, self.needles), axis=1)
        position = gaps + np.arange(self.needles)  # a key has its value next to it, so no two keys are neighbors
        asked = draws.draw_distinct(self.needles, self.needles)
        tokens, targets, distance = empty(draws.rows, self.length)
        tokens[:] = self.keys + self.values + draws.below(self.words, self.length)
        tokens[row, position] = keys
        tokens[row, position + 1] = values
        tokens[:, first_question:] = keys[row, asked]
        targets[:, first_question:] = values[row, asked]
        distance[:, first_question:] = np.arange(first_question, self.length) - (position[row, asked] + 1)
        return Questions(tokens, targets, distance)
