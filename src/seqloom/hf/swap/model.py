"""A model of transformers whose attention is replaced in some layers, with all other weights as they were.

    swap(model, {1: "gated_delta", 2: "gated_delta"})

`seqloom.models.take_over` says what a mixer takes over from attention. No mixer computes what attention did: without
training, such a model writes noise.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from seqloom.core.arguments import describe_value
from seqloom.core.mixer_config import MixerConfig
from seqloom.hf.swap.classes import attention_of, build_mixers, put_mixers, swapped_class
from seqloom.hf.swap.config import MODEL_TYPE, swapped_config
from seqloom.hf.swap.families import Family, base_type, family_of
from seqloom.models.config import read_both_ways
from seqloom.models.take_over import Given, Init, replacement, take_over


def swap(
    model: PreTrainedModel,
    layers: Mapping[int, Given],
    *,
    init: Init = "projections",
    context: int | None = None,
) -> PreTrainedModel:
    """A copy of the model with other mixers in place of attention, by the number of the layer, from 0.

    A mixer is a kind or its settings; with its kind alone it has the heads of the replaced attention, as wide as there.
    In a model that reads whole texts, one without a bidirectional form reads both ways (`both_ways`).
    It looks back on `context` tokens, by default the longest text of the model. With init="projections" it takes over
    the matrices of attention where the shapes agree. TypeError unless it is a model of transformers; ValueError for a
    family that is not built, for layers that are not there, and for mixers that do not fit.
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(f"model is one of seqloom or of transformers, not {describe_value(model)}")
    if getattr(model.config, MODEL_TYPE, None):
        raise ValueError("attention of this model was replaced before: swap all layers of the first model at once")
    family, config = family_of(model.config), model.config
    longest = family.longest(config) if context is None else context
    settings = {number: _settings(config, family, number, given) for number, given in sorted(layers.items())}
    if not settings:
        raise ValueError("no layer is named whose attention is to be replaced")
    swapped = {
        "base": base_type(config),
        "context": longest,
        "layers": {str(number): mixer.model_dump(mode="json") for number, mixer in settings.items()},
    }
    other = _copy_without(model, [attention_of(family.layers_of(model)[number], family) for number in settings])
    other.config.seqloom_swap = swapped
    config_class: Any = type(config)
    model_class: Any = type(model)
    other.config.__class__ = swapped_config(config_class)
    other.__class__ = swapped_class(model_class)
    mixers = build_mixers(other.config)
    for number, mixer in mixers.items():
        mixer.to(model.device, model.dtype)
        if init == "projections":
            take_over(family.read(family.layers_of(model)[number], config), mixer)
    put_mixers(other, mixers)
    return other.train(model.training)


def _settings(config: Any, family: Family, number: int, given: Given) -> MixerConfig:
    """The settings of the mixer of a layer. ValueError where it cannot stand there."""
    depth = config.num_hidden_layers
    if not 0 <= number < depth:
        raise ValueError(f"there is no layer {number}: the model has layers 0 to {depth - 1}")
    if family.keeps_first and number == 0:
        raise ValueError("layer 0 of T5's encoder owns the bias of positions of all layers: keep its attention")
    heads, dim = config.num_attention_heads, config.hidden_size
    width = getattr(config, "head_dim", None) or dim // heads
    settings = replacement(given, heads, width)
    if not family.causal:
        return read_both_ways(settings)
    settings.require_form(causal=True)
    if not settings.traits.streams:
        raise ValueError(f"{settings.kind} does not stream, so that a model with it cannot generate with a cache")
    return settings


def _copy_without(model: PreTrainedModel, attention: list[nn.Module]) -> PreTrainedModel:
    """A copy of the model that shares no memory with it, without the modules that will be replaced."""
    memo: dict[int, Any] = {id(module): nn.Identity() for module in attention}
    return deepcopy(model, memo)
