"""What every pattern says: which keys a query looks at, in which tiles, and how far back."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from seqloom.ops.attention.tiles import Tiles


class Pattern(ABC):
    """Which keys a query looks at. Patterns are values: equal ones share their tiles."""

    @property
    def causal(self) -> bool:
        """Whether no query looks at a later key."""
        return True

    @property
    def reach(self) -> int | None:
        """How many tokens a query looks back on at most, itself included; None for all."""
        return None

    @property
    def measured(self) -> bool:
        """Whether it depends on the length of the text."""
        return False

    @abstractmethod
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """True where the query at time i looks at the key at time j."""

    @abstractmethod
    def tiles(self, T: int) -> list[Tiles]:
        """The tiles of a text of T tokens. No pair is in two of them."""

    def keys(self, t: int) -> Tensor:
        """The times of the keys that the query at time t looks at, among those up to t."""
        then = torch.arange(t + 1)
        return then[self(torch.tensor(t), then)]

    def counted(self, T: int) -> tuple[int, int] | None:
        """How many of T queries look at any key, and how many pairs they have; None where the tiles must be counted."""
        return None

    def of(self, length: "Tensor | int") -> "Pattern":
        """The pattern for texts of these lengths, where it depends on them; by default the same."""
        return self


def positive(name: str, given: int) -> int:
    """The number, or ValueError where it is below 1."""
    if given < 1:
        raise ValueError(f"{name} is 1 or more tokens, not {given}")
    return given
