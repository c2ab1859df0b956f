"""The contract of positions: what tells a model where a token is, and where that acts.

    embedding      a vector for each position, added to the token's
    layers         a vector for each position and layer, added to the layer's input
    queries_keys   queries and keys are changed, each by its own position
    scores         the product of a query and a key is changed by their distance
    keys_values    keys and values are changed by how far they are from the query

A model has one of them in its settings. The first two places are the model's own; the others are places of mixers,
which declare those that they have (`MixerConfig.places`). Positions count kept tokens, and go on through pieces and
steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, final

from jaxtyping import Float, Int
from torch import Tensor, device, nn

from seqloom.core.config import SizedConfig
from seqloom.core.cost import Cost, Span
from seqloom.core.registry import Registry

Place: TypeAlias = Literal["embedding", "layers", "queries_keys", "scores", "keys_values"]


class EmbeddingPosition(nn.Module, ABC):
    """A position that is added to the embedding of a token, or to the input of a layer."""

    scaled: ClassVar[bool] = True
    """whether the model multiplies it by √D, as it does the embeddings of tokens"""

    @abstractmethod
    def forward(self, time: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The vectors of tokens at these positions, from 0."""


class QueriesKeysPosition(nn.Module, ABC):
    """A position that changes queries and keys before their product."""

    @property
    def fade(self) -> Tensor | None:
        """(K,): the product of channel c is multiplied by e^{-fade_c (i - j)}; None for 0."""
        return None

    @abstractmethod
    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G T K"], time: Int[Tensor, "... T"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G T K"]]:
        """Queries and keys of tokens at these positions (T,) or (B, T), from 0."""

    @abstractmethod
    def price(self, span: Span, /) -> Cost:
        """The price of changing the queries and keys of these tokens, but for `fade`."""

    @abstractmethod
    def rebuild(self, where: device) -> None:
        """Computes the buffers that are not saved, on a device: see `Mixer.rebuild`."""


@final
@dataclass(frozen=True)
class Relation:
    """What attention does with the distance of queries and keys; see `seqloom.ops.attention`."""

    query: Float[Tensor, "H 1 K"] | None = None
    """what is added to every query"""
    values: Float[Tensor, "H R"] | None = None
    """the bias of distance `first` + n, beyond both ends the end's own"""
    first: int = 0
    score_change: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] | None = None
    value_change: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None


class RelativePosition(nn.Module, ABC):
    """A position that changes scores, or keys and values, by how far a key is from the query."""

    @abstractmethod
    def forward(self, behind: int, ahead: int, alone: bool) -> Relation:
        """For distances i - j from -`ahead` to `behind`; `alone` for a single query."""

    @abstractmethod
    def price(self, span: Span, terms: int, distances: int) -> Cost:
        """For `terms` pairs of queries and keys in all, but for the addition of a bias; `distances` are possible."""

    def rebuild(self, where: device) -> None:
        """Computes the buffers that are not saved, on a device; by default there are none."""


class PositionConfig(SizedConfig, ABC):
    """The settings of one kind of position."""

    kind: str
    place: ClassVar[Place | None]
    """where it acts; None where there are no positions"""
    shared: ClassVar[bool] = False
    """whether all layers of equal settings have one together"""

    @abstractmethod
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> nn.Module | None:
        """The position for `width` channels, of the embedding or of each head.

        `context` is the longest text in tokens, where that is known; there are `heads` heads of queries and `kv_heads`
        of keys, by default as many. ValueError for a width that it does not take.
        """

    def longest(self, context: int) -> int | None:
        """The longest text that it reaches, in tokens, in a model of this context; None for any."""
        return None

    def price(self, rows: int, dim: int, context: int) -> Cost:
        """The operations on `rows` tokens in the embedding or a layer; those inside a mixer are in its own price."""
        return Cost()


_registry: Registry[PositionConfig] = Registry("position")
register = _registry.register
kinds = _registry.kinds
"""every registered kind of position by name; `seqloom.positions` registers ours"""
