"""The second sublayer of a layer by kind: one class of settings each, and one name below."""

from typing import Any, ClassVar, Literal, final

from pydantic import Field
from typing_extensions import override

from seqloom.core.config import read_inside, suggestion
from seqloom.core.feed_forward import KIND, WIDEST, FeedForwardConfig, require_own
from seqloom.models.channel_mix import ChannelMix
from seqloom.models.channel_mix7 import ChannelMix7
from seqloom.models.ffn import FFN
from seqloom.models.separable import Separable


@final
class FFNConfig(FeedForwardConfig):
    """A feed-forward network, plain or gated."""

    kind: Literal["ffn"] = "ffn"
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "relu2"] = Field(
        "relu", description="activation; gelu_tanh is GPT-2's, relu2 the square of relu"
    )
    gated: bool = Field(False, description="whether it is gated: SwiGLU with silu, GEGLU with gelu")
    bias: bool = Field(True, description="whether it has biases")
    chunk: int | None = Field(
        None,
        ge=1,
        description="tokens per chunk, recomputed in the backward pass: less memory, same results (Reformer); unset: "
        "all at once",
    )
    later: ClassVar = ("activation", "gated", "bias", "chunk")

    @property
    @override
    def held_numbers(self) -> int:
        return 0 if self.chunk is not None else self.width * (2 if self.gated else 1)

    @override
    def build(self, dim: int, causal: bool, layer: int, depth: int) -> FFN:
        return FFN(dim, self.width, self.activation, self.gated, self.bias, self.chunk)


@final
class ChannelMixConfig(FeedForwardConfig):
    """RWKV-4's channel mixing."""

    kind: Literal["channel_mix"] = "channel_mix"
    reads_back: ClassVar = True
    causal_only: ClassVar = True

    @override
    def build(self, dim: int, causal: bool, layer: int, depth: int) -> ChannelMix:
        return ChannelMix(dim, self.width, layer, depth)


@final
class ChannelMix7Config(FeedForwardConfig):
    """RWKV-7's channel mixing."""

    kind: Literal["channel_mix7"] = "channel_mix7"
    reads_back: ClassVar = True
    causal_only: ClassVar = True

    @override
    def build(self, dim: int, causal: bool, layer: int, depth: int) -> ChannelMix7:
        return ChannelMix7(dim, self.width, layer, depth)


@final
class SeparableConfig(FeedForwardConfig):
    """Two separable convolutions, as in the Universal Transformer."""

    kind: Literal["separable"] = "separable"
    reads_back: ClassVar = True

    @override
    def build(self, dim: int, causal: bool, layer: int, depth: int) -> Separable:
        return Separable(dim, self.width, causal)


@final
class NoFFNConfig(FeedForwardConfig):
    """No second sublayer, as in Mamba."""

    kind: Literal["none"] = "none"
    width: int = Field(
        512, ge=1, le=WIDEST, description="not used: what another kind begins with, and part of a stored run's identity"
    )
    is_none: ClassVar = True

    @property
    @override
    def held_numbers(self) -> int:
        return 0

    @override
    def build(self, dim: int, causal: bool, layer: int, depth: int) -> None:
        return None


FFN_KINDS: dict[str, type[FFNConfig | ChannelMixConfig | ChannelMix7Config | SeparableConfig | NoFFNConfig]] = {
    config.model_fields["kind"].default: config
    for config in (FFNConfig, ChannelMixConfig, ChannelMix7Config, SeparableConfig, NoFFNConfig)
}


def ffn_config(value: Any) -> Any:
    """The settings of a kind from plain values, or a tuple of them from a list. ValueError for wrong ones."""
    if isinstance(value, FeedForwardConfig):
        return value
    if isinstance(value, list | tuple):
        if not value:
            raise ValueError("the list of feed-forward networks is empty; name at least one")
        return tuple(ffn_config(entry) for entry in value)
    if not isinstance(value, dict):
        raise ValueError(f"model.ffn is given by its settings, such as {{kind: ffn, width: 512}}, not {value!r}")
    kind = value.get("kind", KIND)
    if not isinstance(kind, str) or kind not in FFN_KINDS:
        raise ValueError(f"unknown kind {kind!r} of a feed-forward network; {suggestion(str(kind), FFN_KINDS)}")
    require_own(kind, value)
    return read_inside(FFN_KINDS[kind], value)
