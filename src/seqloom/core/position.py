"""The contract of positions: what tells a model where a token is, and where that acts.

    embedding      a vector for each position, added to the token's
    queries_keys   queries and keys are changed, each by its own position
    scores         the product of a query and a key is changed by their positions
    keys_values    keys and values are changed by how far they are from the query

A model has one of them in its settings. The embedding is the model's own place; the others are places of mixers, which
declare those that they have (`MixerConfig.places`). Positions count kept tokens, and go on through pieces and steps.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, TypeAlias

from jaxtyping import Float, Int
from torch import Tensor, device, nn

from seqloom.core.config import SizedConfig
from seqloom.core.cost import Cost, Span
from seqloom.core.registry import Registry

Place: TypeAlias = Literal["embedding", "queries_keys", "scores", "keys_values"]


class EmbeddingPosition(nn.Module, ABC):
    """A position that is added to the embedding of a token."""

    @abstractmethod
    def forward(self, time: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The vectors of tokens at these positions, from 0."""


class QueriesKeysPosition(nn.Module, ABC):
    """A position that changes queries and keys before their product."""

    @abstractmethod
    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], time: Int[Tensor, "... T"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
        """Queries and keys of tokens at these positions (T,) or (B, T), from 0."""

    @abstractmethod
    def price(self, span: Span, /) -> Cost:
        """The price of changing the queries and keys of these tokens."""

    @abstractmethod
    def rebuild(self, where: device) -> None:
        """Computes the buffers that are not saved, on a device: see `Mixer.rebuild`."""


class PositionConfig(SizedConfig, ABC):
    """The settings of one kind of position."""

    kind: str
    place: ClassVar[Place | None]
    """where it acts; None where there are no positions"""

    @abstractmethod
    def build(self, width: int, context: int | None, heads: int = 1) -> nn.Module | None:
        """The position for `width` channels, of the embedding or of each of so many heads.

        `context` is the longest text in tokens, where that is known.
        """

    def longest(self, context: int) -> int | None:
        """The longest text that it reaches, in tokens, in a model of this context; None for any."""
        return None

    def price(self, rows: int, dim: int, context: int) -> Cost:
        """What the model pays in the embedding of `rows` tokens; what acts in a mixer is priced there."""
        return Cost()


_registry: Registry[PositionConfig] = Registry("position")
register = _registry.register
kinds = _registry.kinds
"""every registered kind of position by name; `seqloom.positions` registers ours"""
