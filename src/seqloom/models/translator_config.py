"""The settings of a model that reads a source and writes a target: of its decoder, and of its encoder's layers."""

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, final

from pydantic import Field, SerializeAsAny, field_validator, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.config import Config
from seqloom.core.feed_forward import FeedForwardConfig
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model_config import weightless
from seqloom.models.block import Block
from seqloom.models.config import BidirectionalConfig, TransformerConfig, read_both_ways
from seqloom.models.cross_attention import CrossConfig
from seqloom.models.encoder import EncoderConfig
from seqloom.models.ffn_kinds import FFNConfig, SeparableConfig
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.models.universal import UniversalEncoderConfig

COMMON = (
    *("vocab", "context", "dim", "dropout", "position", "std", "embed_norm", "norm", "norm_place", "embed_scale"),
)
"""settings that the encoder and the decoder have together"""
HALTING = ("halt", "epsilon", "ponder")
"""settings of an encoder of one block"""


@final
class EncoderLayers(Config):
    """The layers of the encoder; all other settings are the decoder's."""

    depth: int = Field(2, ge=1, le=1000, description="layers of the encoder")
    mixer: SerializeAsAny[MixerConfig] | tuple[SerializeAsAny[MixerConfig], ...] = Field(
        description="the mixer of every layer of the encoder, or a list that the layers repeat; a causal mixer "
        "without a bidirectional form runs in both directions (both_ways)"
    )
    repeat: bool = Field(False, description="whether one block is applied `depth` times (Universal Transformer)")
    channel: Literal["ffn", "separable"] = Field(
        "ffn", description="sublayer after each mixer: a feed-forward network, or two separable convolutions"
    )
    halt: bool = Field(
        False,
        description="with repeat: whether each position halts after its own number of steps (adaptive computation "
        "time)",
    )
    epsilon: float = Field(0.01, gt=0, lt=1, description="a position halts where its probabilities sum to 1 - epsilon")
    ponder: float = Field(0.01, ge=0, description="weight of the loss N + R of a position with N steps and remainder R")
    later: ClassVar = ("repeat", "channel", *HALTING)

    @field_validator("mixer", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        return TransformerConfig._by_kind(value)

    @field_validator("mixer", mode="after")
    @classmethod
    def _in_both_directions(cls, value: MixerConfig | tuple[MixerConfig, ...]) -> MixerConfig | tuple[MixerConfig, ...]:
        return tuple(read_both_ways(mixer) for mixer in value) if isinstance(value, tuple) else read_both_ways(value)

    @model_validator(mode="after")
    def _halts(self) -> "EncoderLayers":
        changed = [name for name in HALTING if getattr(self, name) != type(self).model_fields[name].default]
        if changed and not self.repeat:
            raise ValueError(f"{changed[0]} is of an encoder of one block: set encoder.repeat=true")
        return self


class TranslatorConfig(TransformerConfig, ABC):
    """The sizes of an encoder-decoder and its mixers: `mixer` and `depth` are the decoder's."""

    encoder: EncoderLayers = Field(description="the layers of the encoder")
    cross: CrossConfig = Field(CrossConfig(), description="attention of the decoder to the encoder's output")
    sublayers: Literal["serial"] = Field("serial", description="sublayers run one after the other")
    norm_place: Literal["before", "after"] = Field(
        "before", description="norm of the input of a sublayer (pre-norm), or of the sum after it (Vaswani)"
    )
    residual: Literal["add"] = Field("add", description="the output of a sublayer is added to the residual stream")
    scaled_init: Literal[False] = Field(False, description="only for decoders without cross-attention")
    causal: ClassVar = True
    objective: ClassVar = "pairs"
    ffn_kinds: ClassVar[tuple[str, ...]] = ("ffn",)
    """what may follow cross-attention"""

    @model_validator(mode="after")
    def _encodes(self) -> "TranslatorConfig":
        kinds = [ffn.kind for ffn in self.ffn_pattern]
        if len(kinds) > 1 or kinds[0] not in self.ffn_kinds:
            raise ValueError(
                f"a {self.kind} has one ffn for all layers, of kind {' or '.join(self.ffn_kinds)}, not "
                f"{', '.join(kinds)}"
            )
        self.encoding()
        return self

    @property
    @override
    def encoder_pattern(self) -> tuple[MixerConfig, ...]:
        mixer = self.encoder.mixer
        return mixer if isinstance(mixer, tuple) else (mixer,)

    def encoding(self) -> BidirectionalConfig:
        """The settings of the encoder, whose output layer has no weights of its own."""
        encoder = self.encoder
        values = {name: getattr(self, name) for name in COMMON}
        values |= {
            "depth": encoder.depth,
            "mixer": encoder.mixer,
            "ffn": self._encoder_ffn(),
            "tie": True,
            "head_bias": False,
        }
        if not encoder.repeat:
            return EncoderConfig(**values)
        return UniversalEncoderConfig(**values, **{name: getattr(encoder, name) for name in HALTING})

    def _encoder_ffn(self) -> FeedForwardConfig:
        """The second sublayer of the encoder: a feed-forward network as the decoder's, or what is in its place."""
        ffn = self.ffn_of(0)
        if self.encoder.channel == "separable":
            return SeparableConfig(width=ffn.width)
        if isinstance(ffn, FFNConfig):
            return ffn.model_copy(update={"chunk": None})
        return FFNConfig(width=ffn.width)

    def ffn_after(self) -> FFNSublayer:
        """What follows cross-attention in a layer."""
        ffn = self._built_ffn(0)
        assert ffn is not None, "`ffn_kinds` has none without"
        return ffn

    @override
    def block(self, layer: int, shared: Mapping[str, nn.Module]) -> Block:
        """The self-mixer of a layer, with its norm."""
        mixer = self.mixer_of(layer, shared.get(self._shared_names[self.mixers[layer]]))
        return self._arrangement_of(layer)(mixer, "none", None, self.dropout, self.new_norm)

    @property
    @override
    def distinct(self) -> int:
        return 1 if self.one_block else self.depth

    @override
    def tensors(self) -> dict[str, Tensor]:
        return weightless(self).state_dict()
