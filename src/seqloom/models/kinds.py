"""The models by kind: one file per kind, and one name below."""

from typing import Any, TypeAlias

from pydantic import SerializeAsAny

from seqloom.core.config import read_inside
from seqloom.core.model_config import ModelConfig
from seqloom.models.config import TransformerConfig
from seqloom.models.decoder import DecoderConfig
from seqloom.models.encoder import EncoderConfig

AnyModel: TypeAlias = SerializeAsAny[TransformerConfig]
"""a field of settings that holds those of a model of any kind"""
KINDS: dict[str, type[TransformerConfig]] = {
    config.model_fields["kind"].default: config for config in (DecoderConfig, EncoderConfig)
}


def model_config(values: Any) -> ModelConfig:
    """The settings of a model from plain values; a decoder unless they have a `kind`. ValueError for wrong ones."""
    if isinstance(values, ModelConfig):
        return values
    kind = values.get("kind", "decoder") if isinstance(values, dict) else None
    # an unknown kind is read as a Transformer's, whose error names it
    of_kind = KINDS.get(kind) if isinstance(kind, str) else None
    config: ModelConfig = read_inside(of_kind or TransformerConfig, values)
    return config
