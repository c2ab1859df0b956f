"""The processes that train one model, in a grid: rows of the batch by stretches of each row.

    rank = stretches · row + place        place 0 reads the first tokens of its rows, the others go on from it

Processes that read the same rows are next to each other, so that they are on one machine where it has as many.
"""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Mesh:
    """Where process number `rank` of `size` stands, of which each `stretches` share the tokens of their rows."""

    rank: int = 0
    size: int = 1
    stretches: int = 1

    @property
    def rows(self) -> int:
        """How many share the rows of a batch."""
        return self.size // self.stretches

    @property
    def row(self) -> int:
        """The number of this process among those, from 0."""
        return self.rank // self.stretches

    @property
    def place(self) -> int:
        """Which stretch of its rows it reads, from 0."""
        return self.rank % self.stretches

    @property
    def is_first(self) -> bool:
        """Whether it reads the first stretch, which follows none."""
        return self.place == 0

    @property
    def is_last(self) -> bool:
        """Whether no stretch follows its own."""
        return self.place == self.stretches - 1

    def stretch(self, tokens: int) -> tuple[int, int]:
        """The first token of this process in rows of `tokens`, and the one after its last; equal where it has none.

        Lengths differ by at most one token, earlier ones are longer.
        """
        length, longer = divmod(tokens, self.stretches)
        first = self.place * length + min(self.place, longer)
        return first, first + length + (self.place < longer)
