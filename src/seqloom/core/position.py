"""The contract of positional encodings, and the places of a model where one can act.

    embedding      a vector for each position, added to the token's
    layers         a vector for each position and layer, added to the layer's input
    queries_keys   each query and each key is changed by its own position
    scores         the product of a query and a key is changed by their distance
    keys_values    keys and values are changed by how far they are from the query

A model has one positional encoding in its settings. The first two places are in the model; the other three are in its
mixers, and each mixer declares which of them it has (`MixerConfig.places`). Positions count kept tokens, and continue
over pieces and steps.
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
    """A positional encoding that is added to the embedding of a token, or to the input of a layer."""

    scaled: ClassVar[bool] = True
    """whether the model multiplies it by √D, as it does the embeddings of tokens"""

    @abstractmethod
    def forward(self, time: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The vectors of tokens at these positions, from 0."""


class QueriesKeysPosition(nn.Module, ABC):
    """A positional encoding that changes queries and keys before their product."""

    @property
    def decay(self) -> Tensor | None:
        """(K,): the product of channel c is multiplied by e^{-decay_c (i - j)}; None for 0."""
        return None

    @abstractmethod
    def forward(
        self, q: Float[Tensor, "B H T K"], k: Float[Tensor, "B G T K"], time: Int[Tensor, "... T"]
    ) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B G T K"]]:
        """Queries and keys of tokens at these positions (T,) or (B, T), from 0."""

    @abstractmethod
    def price(self, span: Span, /) -> Cost:
        """The price of changing the queries and keys of these tokens, without that of `decay`."""

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
    """the bias of distance `first` + n; distances beyond either end take the bias at that end"""
    first: int = 0
    score_change: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] | None = None
    value_change: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None


class RelativePosition(nn.Module, ABC):
    """A positional encoding that changes scores, or keys and values, by the distance of key and query."""

    @abstractmethod
    def forward(self, behind: int, ahead: int, alone: bool) -> Relation:
        """The relation for distances i - j from -`ahead` to `behind`; `alone` says that there is one query."""

    @abstractmethod
    def price(self, span: Span, terms: int, distances: int) -> Cost:
        """The price for `terms` (query, key) pairs over `distances` distances, without the addition of a bias."""

    def rebuild(self, where: device) -> None:
        """Computes the buffers that are not saved, on a device; by default there are none."""


class PositionConfig(SizedConfig, ABC):
    """The settings of one kind of positional encoding."""

    kind: str
    place: ClassVar[Place | None]
    """where it acts; None where there are no positions"""
    shared: ClassVar[bool] = False
    """whether all layers with equal settings share one module"""

    @abstractmethod
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> nn.Module | None:
        """The positional encoding for `width` channels, of the embedding or of each head.

        `context` is the longest text in tokens, where that is known. There are `heads` heads of queries and `kv_heads`
        heads of keys (by default as many). ValueError for a width that it does not support.
        """

    def longest(self, context: int) -> int | None:
        """The longest text in tokens that it supports in a model of this context; None for any."""
        return None

    def price(self, rows: int, dim: int, context: int) -> Cost:
        """The price of `rows` tokens in the embedding or in a layer's input; mixers price what acts inside them."""
        return Cost()


_registry: Registry[PositionConfig] = Registry("position")
register = _registry.register
kinds = _registry.kinds
"""every registered kind of position by name; `seqloom.positions` registers ours"""
