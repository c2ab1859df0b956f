"""The settings of models whose layers read in both directions.

A mixer without a bidirectional form of its own reads both ways: `both_ways` with the sum of the two.
"""

from abc import ABC
from typing import Any, ClassVar

from pydantic import field_validator, model_validator

from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import mixer_config
from seqloom.models.config import TransformerConfig


class BidirectionalConfig(TransformerConfig, ABC):
    """The sizes of a model and the bidirectional mixers of its layers."""

    causal: ClassVar = False

    @field_validator("mixer", mode="after")
    @classmethod
    def _in_both_directions(cls, value: MixerConfig | tuple[MixerConfig, ...]) -> MixerConfig | tuple[MixerConfig, ...]:
        return tuple(read_both_ways(each) for each in value) if isinstance(value, tuple) else read_both_ways(value)

    @model_validator(mode="after")
    def _both_directions(self) -> Any:
        if self.channel in ("channel_mix", "channel_mix7"):
            name = f"{'an' if self.kind[0] in 'aeio' else 'a'} {self.kind}"
            raise ValueError(
                f"channel={self.channel} is causal, and {name} reads in both directions: choose ffn or none"
            )
        return self


def read_both_ways(mixer: MixerConfig) -> MixerConfig:
    """The settings themselves where they have a bidirectional form, else those of `both_ways` around them."""
    return mixer if mixer.has_bidirectional else mixer_config({"kind": "both_ways", "mixer": mixer})
