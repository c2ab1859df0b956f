"""Copying: words, then as many questions; the answers are the words in their order.

    w3 w1 w7 w2 ? ? ? ?  → w3 w1 w7 w2            ids: 0 is ?, then the words

Every answer is at the same distance, so that one tap of a convolution can find it; a small state cannot hold all words.
Source: the copying problem of Hochreiter and Schmidhuber 1997 as in Arjovsky et al., arXiv:1511.06464. What differs:
there is no delay before the questions, and the difficulty is the number of words.
"""

from typing import ClassVar, final

from pydantic import Field
from typing_extensions import override

from seqloom.data.probes.draws import Draws
from seqloom.data.probes.probe import LONGEST, Probe, Questions, empty


@final
class Copying(Probe):
    """The words of a sequence must be repeated in order."""

    name: ClassVar = "copying"
    count: int = Field(ge=1, le=LONGEST // 2, description="words to be copied")
    words: int = Field(16, ge=2, le=LONGEST, description="different words")

    @classmethod
    @override
    def at(cls, difficulty: int) -> dict[str, int]:
        """4, 8, 16, … words."""
        return {"count": 2 ** (difficulty + 1)}

    @property
    @override
    def vocab(self) -> int:
        return 1 + self.words

    @property
    @override
    def row_tokens(self) -> int:
        return 2 * self.count

    @property
    @override
    def chance(self) -> float:
        """Words are all equally likely."""
        return 1 / self.words

    @override
    def make_questions(self, draws: Draws) -> Questions:
        tokens, targets, distance = empty(draws.rows, self.row_tokens)
        tokens[:, : self.count] = targets[:, self.count :] = 1 + draws.below(self.words, self.count)
        distance[:, self.count :] = self.count
        return Questions(tokens, targets, distance)
