"""An encoder around any bidirectional mixers: every position is read from all others; `transformer` has the equations.

A mixer without a bidirectional form of its own reads both ways: `both_ways` with the sum of the two.

Source: Devlin et al., BERT, arXiv:1810.04805. What differs: the layers are the Extractor paper's (norm before each
sublayer, untied output, N(0, 0.01²)), there are no segments, and the head is one linear layer.
"""

from typing import ClassVar, Literal, final

from pydantic import field_validator, model_validator
from typing_extensions import override

from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import ModelTraits
from seqloom.mixers import mixer_config
from seqloom.models.config import TransformerConfig
from seqloom.models.transformer import Transformer


@final
class EncoderConfig(TransformerConfig):
    """The sizes of an encoder and the bidirectional mixers of its layers."""

    kind: Literal["encoder"] = "encoder"
    causal: ClassVar = False

    @field_validator("mixer", mode="after")
    @classmethod
    def _in_both_directions(cls, value: MixerConfig | tuple[MixerConfig, ...]) -> MixerConfig | tuple[MixerConfig, ...]:
        return tuple(read_both_ways(mixer) for mixer in value) if isinstance(value, tuple) else read_both_ways(value)

    @model_validator(mode="after")
    def _both_directions(self) -> "EncoderConfig":
        if self.channel in ("channel_mix", "channel_mix7"):
            raise ValueError(
                f"channel={self.channel} is causal, and an encoder reads in both directions: choose ffn or none"
            )
        return self

    @override
    def build(self, layers: int | None = None) -> "Encoder":
        return Encoder(self, layers)


def read_both_ways(mixer: MixerConfig) -> MixerConfig:
    """The settings themselves where they have a bidirectional form, else those of `both_ways` around them."""
    return mixer if mixer.has_bidirectional else mixer_config({"kind": "both_ways", "mixer": mixer})


@final
class Encoder(Transformer):
    """Predicts the token of every position from the whole row."""

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates nor streams."""
        return ModelTraits(False, False, self.longest)
