"""The settings of a decoder: its sizes, the mixers of its layers, and what stands beside them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializeAsAny, field_validator, model_validator
from torch import nn

from seqloom.core.config import Config
from seqloom.core.mixer import MixerConfig
from seqloom.mixers import mixer_config
from seqloom.models.block import Block
from seqloom.models.channel import Channel
from seqloom.models.channel_mix import ChannelMix
from seqloom.models.ffn import FFN
from seqloom.models.norm import Norm
from seqloom.positions import AnyPosition
from seqloom.positions.learned import LearnedConfig


class DecoderConfig(Config):
    """The sizes of a decoder and the mixers of its layers."""

    kind: Literal["decoder"] = "decoder"
    vocab: int = Field(5000, ge=1, le=2**24, description="entries of the vocabulary")
    dim: int = Field(128, ge=1, le=2**17, description="channels of a token")
    depth: int = Field(18, ge=1, le=1000, description="layers")
    context: int = Field(128, ge=1, le=2**24, description="tokens of a window, and how far a mixer looks back")
    ffn: int = Field(
        512, ge=1, le=2**20, description="width of the feed-forward network or what is in its place, if any"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of the embeddings and of each sublayer's output")
    position: AnyPosition = Field(LearnedConfig(), description="what tells where a token is")
    mixer: SerializeAsAny[MixerConfig] | tuple[SerializeAsAny[MixerConfig], ...] = Field(
        description="the mixer of every layer, or a list that the layers repeat"
    )
    std: float = Field(0.01, gt=0, description="standard deviation of the initial weights")
    channel: Literal["ffn", "channel_mix", "none"] = Field(
        "ffn",
        description="what follows each mixer: a feed-forward network, RWKV-4's channel mixing, or nothing (Mamba)",
    )
    embed_norm: bool = Field(False, description="a norm of the embeddings, as RWKV has")
    norm: Norm = Field(
        "layer", description="the norm before each sublayer and the output: of mean and variance, or rms"
    )
    later: ClassVar = ("channel", "embed_norm", "norm")

    @field_validator("position", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("mixer", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return mixer_config(value)
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError("the list of mixers is empty; name at least one")
            return tuple(cls._by_kind(entry) for entry in value)
        if isinstance(value, MixerConfig):
            return value
        raise ValueError("a mixer is given by its settings, such as {kind: she}")

    @model_validator(mode="after")
    def _all_used(self) -> "DecoderConfig":
        if isinstance(self.mixer, tuple) and len(self.mixer) > self.depth:
            raise ValueError(f"{len(self.mixer)} mixers for {self.depth} layers: the last would never be used")
        return self

    @model_validator(mode="after")
    def _acts(self) -> "DecoderConfig":
        place, kinds = self.position.place, sorted({mixer.kind for mixer in self._given})
        if place not in (None, "embedding") and not any(place in mixer.places for mixer in self._given):
            raise ValueError(
                f"{self.position.kind} positions act on {place}, and {', '.join(kinds)} has no place for them: choose "
                "another model.position or a mixer that has"
            )
        return self

    @property
    def mixers(self) -> tuple[MixerConfig, ...]:
        """The mixer of each layer, in order."""
        return tuple(self._given[layer % len(self._given)] for layer in range(self.depth))

    def shared(self) -> dict[str, nn.Module]:
        """What layers of equal settings share, by the kind of their mixer; `kind_2` for a kind's second settings."""
        kinds = [mixer.kind for mixer in self.mixers]
        parts = {
            name: mixer.shared(self.dim, self.context, kinds.count(mixer.kind)) for mixer, name in self._names.items()
        }
        return {name: part for name, part in parts.items() if part is not None}

    def block(self, layer: int, shared: Mapping[str, nn.Module]) -> Block:
        """The layer of a number, from 0, given what `shared` made; it holds weights of its own and refers to those.

        ValueError where its mixer does not fit the sizes.
        """
        config = self.mixers[layer]
        kinds = [mixer.kind for mixer in self.mixers]
        number, depth = kinds[:layer].count(config.kind), kinds.count(config.kind)
        part = shared.get(self._names[config])
        position = self.position if self.position.place in config.places else None
        mixer = config.build(self.dim, self.context, layer=number, depth=depth, shared=part, position=position)
        return Block(mixer, self.channel, self._channel(layer), self.dropout, self.norm)

    @property
    def _given(self) -> tuple[MixerConfig, ...]:
        return self.mixer if isinstance(self.mixer, tuple) else (self.mixer,)

    @property
    def _names(self) -> dict[MixerConfig, str]:
        """The name of what the layers of each settings share."""
        names: dict[MixerConfig, str] = {}
        for config in dict.fromkeys(self._given):
            before = sum(other.kind == config.kind for other in names)
            names[config] = f"{config.kind}_{before + 1}" if before else config.kind
        return names

    def _channel(self, layer: int) -> Channel | None:
        match self.channel:
            case "ffn":
                return FFN(self.dim, self.ffn)
            case "channel_mix":
                return ChannelMix(self.dim, self.ffn, layer, self.depth)
            case "none":
                return None
