"""Multi-query associative recall: pairs of key and value, then every key once more; the answer is its value.

    k1 v1 k2 v2 … kn vn  · k2 · · k1 · …            ids: 0 is ·, then the keys, then the values

Source: Arora et al., Zoology, arXiv:2312.04927, and its code. What differs: there, early questions are more frequent (a
power law), only every second position may ask, and the values of a row are all different, so that some can be guessed
by elimination; here questions are uniform over the positions after the pairs, and values are independent.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions, empty


@final
class MQAR(Probe):
    """The value of every key must be recalled."""

    name: ClassVar = "mqar"
    pairs: int = Field(ge=1, description="pairs to be remembered; every key is asked for once")
    length: int = Field(ge=3, le=LONGEST, description="tokens of a row, at least three per pair")
    keys: int = Field(ge=1, le=LONGEST, description="different keys")
    values: int = Field(ge=2, le=LONGEST, description="different values")

    @model_validator(mode="after")
    def _fits(self) -> "MQAR":
        if self.keys < self.pairs:
            raise ValueError(f"{self.pairs} pairs need as many keys, and there are {self.keys}")
        if self.length < 3 * self.pairs:
            raise ValueError(f"{self.pairs} pairs and their questions need a length of {3 * self.pairs} or more")
        return self

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """4, 8, 16, … pairs; four tokens per pair; four times as many keys and values as pairs."""
        pairs = 2 ** (difficulty + 1)
        return {"pairs": pairs, "length": 4 * pairs, "keys": 4 * pairs, "values": 4 * pairs}

    @property
    @override
    def vocab(self) -> int:
        return 1 + self.keys + self.values

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
        end_of_pairs, row = 2 * self.pairs, np.arange(draws.rows)[:, None]
        keys = 1 + draws.draw_distinct(self.keys, self.pairs)
        values = 1 + self.keys + draws.below(self.values, self.pairs)
        asked = end_of_pairs + draws.draw_distinct(self.length - end_of_pairs, self.pairs)
        tokens, targets, distance = empty(draws.rows, self.length)
        tokens[:, 0:end_of_pairs:2] = keys
        tokens[:, 1:end_of_pairs:2] = values
        tokens[row, asked] = keys
        targets[row, asked] = values
        distance[row, asked] = asked - np.arange(1, end_of_pairs, 2)
        return Questions(tokens, targets, distance)
