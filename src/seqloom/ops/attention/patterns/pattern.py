"""The contract of sparse attention patterns."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from seqloom.ops.attention.tiles import Tiles


class Pattern(ABC):
    """Says which keys a query attends to. Patterns compare by value, so that equal ones share a cached plan."""

    @property
    def causal(self) -> bool:
        """Whether no query attends to a later key."""
        return True

    @property
    def reach(self) -> int | None:
        """How many tokens a query looks back at most, itself included; None for all."""
        return None

    @property
    def depends_on_length(self) -> bool:
        """Whether the pattern depends on the length of the text."""
        return False

    @abstractmethod
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """True where the query at time i attends to the key at time j."""

    @abstractmethod
    def tiles(self, T: int) -> list[Tiles]:
        """The tiles of a text of T tokens. No pair of query and key is in two tiles."""

    def keys(self, t: int) -> Tensor:
        """The times of the keys that the query at time t attends to, among those up to t."""
        then = torch.arange(t + 1)
        return then[self(torch.tensor(t), then)]

    def pairs(self, T: int, within: int) -> int | None:
        """The visible pairs of T tokens that are less than `within` apart; None where they must be counted."""
        return None

    def seeing(self, T: int, within: int) -> int | None:
        """How many of T queries have a visible key less than `within` away; None where they must be counted."""
        return None

    def count_seen(self, t: int, within: int) -> int | None:
        """How many keys up to t, less than `within` away, the query at time t sees; None where they must be counted."""
        if not self.causal or self.depends_on_length:
            return None
        after, before = self.pairs(t + 1, within), self.pairs(t, within)
        return None if after is None or before is None else after - before

    def of(self, length: "Tensor | int") -> "Pattern":
        """The pattern for texts of length `length`, if it depends on the length; by default the same pattern."""
        return self


def positive(name: str, size: int) -> int:
    """Returns the number. ValueError where it is below 1."""
    if size < 1:
        raise ValueError(f"{name} is 1 or more tokens, not {size}")
    return size
