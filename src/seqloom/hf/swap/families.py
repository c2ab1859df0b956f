"""Where the models of transformers have their attention, by `model_type`.

| | layers | attention of a layer |
|---|---|---|
| gpt2 | `h` | `attn` |
| llama, mistral, qwen2, qwen3 | `layers` | `self_attn` |
| gpt_neox | `layers` | `attention` |
| bert | `encoder.layer` | `attention.self`, and `attention.output.dense`, its output projection |
| vit | `layers` | `attention` |
| t5 | the encoder's `block` | `layer.0.SelfAttention`; layer 0 owns the bias of all layers, and keeps attention |
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from torch import nn
from transformers import PreTrainedModel

from seqloom.core.mixer_config import MixerConfig
from seqloom.core.position import PositionConfig
from seqloom.hf.swap import read_projections
from seqloom.models.foreign.rope import rotary
from seqloom.models.foreign.values import Values
from seqloom.models.take_over import Projections
from seqloom.positions import kinds as positions


@final
@dataclass(frozen=True)
class Family:
    """Models that have their attention in the same place."""

    layers: str
    """the layers in the body of a model"""
    attention: str
    """the attention in a layer"""
    read: Callable[[Any, Any], Projections]
    """(the layer, the config) → the matrices of its attention"""
    causal: bool
    context: str | int | None = "max_position_embeddings"
    """the setting that is the longest text, or its length; None: that of an image's patches"""
    turns: bool = False
    """whether queries and keys are turned by their positions"""
    output: str = ""
    """the output projection of a layer's attention where it is outside of `attention`: the mixer has its own"""
    keeps_first: bool = False
    """whether layer 0 keeps attention"""

    def layers_of(self, model: PreTrainedModel) -> nn.ModuleList:
        """The layers of a model of this family."""
        layers = self.body(model).get_submodule(self.layers)
        assert isinstance(layers, nn.ModuleList)
        return layers

    def body(self, model: PreTrainedModel) -> PreTrainedModel:
        """The part of a model that holds the layers: of T5, the encoder."""
        return model.get_encoder() if self.keeps_first else model.base_model

    def longest(self, config: Any) -> int:
        """The longest text, in tokens, or the number of patches of an image and one for the class."""
        if isinstance(self.context, int):
            return self.context
        if self.context is not None:
            return int(getattr(config, self.context))
        return (config.image_size // config.patch_size) ** 2 + 1

    def position(self, config: Any, mixer: MixerConfig) -> PositionConfig | None:
        """The positions that act inside of this mixer, as they do in attention; None where it has no place for them."""
        if not self.turns or "queries_keys" not in mixer.places:
            return None
        settings = rotary(Values(config.to_dict(), config.model_type))
        kind = positions()[settings["kind"]]
        return kind.model_validate(settings)


_LLAMA = Family("layers", "self_attn", read_projections.of_llama, causal=True, turns=True)
FAMILIES: dict[str, Family] = {
    "gpt2": Family("h", "attn", read_projections.of_gpt2, causal=True, context="n_positions"),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), _LLAMA),
    "gpt_neox": Family("layers", "attention", read_projections.of_gpt_neox, causal=True, turns=True),
    "bert": Family(
        "encoder.layer",
        "attention.self",
        read_projections.of_bert,
        causal=False,
        output="attention.output.dense",
    ),
    "vit": Family("layers", "attention", read_projections.of_vit, causal=False, context=None),
    "t5": Family(
        "block",
        "layer.0.SelfAttention",
        read_projections.of_t5,
        causal=False,
        context=512,
        keeps_first=True,
    ),
}


def family_of(config: Any) -> Family:
    """The family of a model with this config, of transformers or swapped. ValueError where it is none of `FAMILIES`."""
    kind = base_type(config)
    if kind not in FAMILIES:
        raise ValueError(f"attention of models of type {kind!r} cannot be replaced: that of {', '.join(FAMILIES)} can")
    if kind == "bert" and config.is_decoder:
        raise ValueError("BERT as a decoder is not built: give one with is_decoder=False")
    if getattr(config, "add_cross_attention", False):
        raise ValueError("attention cannot be replaced next to cross-attention: only T5's encoder can have both")
    return FAMILIES[kind]


def base_type(config: Any) -> str:
    """The `model_type` of the model that was swapped, or of the model itself."""
    swapped = getattr(config, "seqloom_swap", None)
    return str(swapped["base"] if swapped else config.model_type)
