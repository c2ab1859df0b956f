"""One question about a list of pairs, asked before the list or after it; the answer is the value of its key.

    after     ·  k1 v1 k2 v2 … kn vn  k2  → v2                ids: 0 is ·, then the keys, then the values
    before    k2 k1 v1 k2 v2 … kn vn  ·   → v2

Asked before, a model may keep one key and one value; asked after, it must keep all pairs. Both rows are equally long.

Source: Peng et al., RWKV, arXiv:2305.13048, section 9 and appendix L, whose prompts give the question before or after a
text. What differs: there the text is English.
"""

from typing import ClassVar, final

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions, empty


@final
class Lookup(Probe):
    """The value of one key must be found. The distance is that to the value, wherever the question stands."""

    name: ClassVar = "lookup"
    pairs: int = Field(ge=1, le=LONGEST // 2 - 1, description="pairs in the list")
    keys: int = Field(ge=1, le=LONGEST, description="different keys")
    values: int = Field(ge=2, le=LONGEST, description="different values")
    before: int = Field(0, ge=0, le=1, description="1: the question stands before the list; 0: after it")

    @model_validator(mode="after")
    def _fits(self) -> "Lookup":
        if self.keys < self.pairs:
            raise ValueError(f"{self.pairs} pairs need as many keys, and there are {self.keys}")
        return self

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """4, 8, 16, … pairs; four times as many keys and values as pairs."""
        pairs = 2 ** (difficulty + 1)
        return {"pairs": pairs, "keys": 4 * pairs, "values": 4 * pairs}

    @property
    @override
    def vocab(self) -> int:
        return 1 + self.keys + self.values

    @property
    @override
    def row_tokens(self) -> int:
        return 2 * self.pairs + 2

    @property
    @override
    def chance(self) -> float:
        """Values are independent and all equally likely."""
        return 1 / self.values

    @override
    def make_questions(self, draws: Draws) -> Questions:
        last, row = self.row_tokens - 1, np.arange(draws.rows)
        keys = 1 + draws.draw_distinct(self.keys, self.pairs)
        values = 1 + self.keys + draws.below(self.values, self.pairs)
        asked = draws.below(self.pairs, 1)[:, 0]
        tokens, targets, distance = empty(draws.rows, self.row_tokens)
        tokens[:, 1:last:2] = keys
        tokens[:, 2:last:2] = values
        tokens[:, 0 if self.before else last] = keys[row, asked]
        targets[:, last] = values[row, asked]
        distance[:, last] = last - (2 * asked + 2)
        return Questions(tokens, targets, distance)
