"""A model whose attention is replaced in some layers, with all other weights as they were.

    swap(model, {1: "gated_delta", 2: "gated_delta"})

`seqloom.models.take_over` says what a new mixer takes over from attention. All else is drawn as in a new model, and no
mixer computes what attention did: without training, such a model writes noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import Model
from seqloom.mixers.attention.attention import Attention, AttentionConfig
from seqloom.models.config import BidirectionalConfig, TransformerConfig
from seqloom.models.take_over import Given, Init, Projections, repeat_heads, replacement, take_over


@final
@dataclass(frozen=True)
class SwappedLayer:
    """What happened to a layer: names of the new mixer's parameters."""

    number: int
    kind: str
    taken_over: tuple[str, ...]
    drawn: tuple[str, ...]


def swap(model: Model, layers: Mapping[int, Given], *, init: Init = "projections") -> tuple[Model, list[SwappedLayer]]:
    """The model with other mixers in these layers, numbered from 0; and what each of them took over.

    A mixer is given by its kind, or by its settings; with its kind alone it has the heads of the replaced attention,
    and heads of queries, keys and values as wide as there. The given model does not change; the new one shares no
    memory with it. ValueError for layers that are not there or have no attention, and for mixers that do not fit.
    """
    config = model.config
    if not isinstance(config, TransformerConfig):
        raise ValueError(f"a model of kind {config.kind} has no attention that could be replaced")
    settings = swapped_settings(config, layers)
    other = settings.build().to(model.device, model.dtype).train(model.training)
    weights = model.state_dict()
    replaced = tuple(f"layers.{number}.mixer." for number in layers)
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith(replaced)}
    missing = other.load_state_dict(kept, strict=False).unexpected_keys
    assert not missing, missing
    found = []
    for number in sorted(layers):
        old, new = model.mixers[number], other.mixers[number]
        assert isinstance(old, Attention)
        taken = take_over(projections_of(old), new) if init == "projections" else ()
        drawn = tuple(name for name, _ in new.named_parameters() if name not in taken)
        found.append(SwappedLayer(number, settings.mixers[number].kind, taken, drawn))
    return other, found


def swapped_settings(config: TransformerConfig, layers: Mapping[int, Given]) -> TransformerConfig:
    """The settings of the model with these mixers; nothing is built. ValueError as `swap` has it."""
    if not layers:
        raise ValueError("no layer is named whose attention is to be replaced")
    if isinstance(config, BidirectionalConfig):
        raise ValueError(f"a model of kind {config.kind} is bidirectional: only causal attention is replaced")
    mixers: list[MixerConfig] = list(config.mixers)
    for number, given in layers.items():
        if not 0 <= number < config.depth:
            raise ValueError(f"there is no layer {number}: the model has layers 0 to {config.depth - 1}")
        if mixers[number].kind != "attention":
            raise ValueError(f"layer {number} has {mixers[number].kind}, not attention")
        old = mixers[number]
        assert isinstance(old, AttentionConfig)
        mixers[number] = replacement(given, old.heads, old.head_width(config.dim))
    changes: dict[str, Any] = {"mixer": tuple(mixers)}
    place = config.position.place
    if place not in (None, "embedding", "layers") and not any(place in mixer.places for mixer in mixers):
        changes["position"] = {"kind": "none"}
    values = {**config.model_dump(mode="json"), **changes}
    values["mixer"] = [mixer.model_dump(mode="json") for mixer in mixers]
    settings: TransformerConfig = type(config).model_validate(values)
    return settings


def projections_of(attention: Attention) -> Projections:
    """The matrices of our attention, with shared keys and values repeated."""
    heads, groups = attention.heads, attention.kv_heads
    q, k, v = attention.w_qkv.weight.split(attention.sizes)
    b_q = b_k = b_v = None
    if attention.w_qkv.bias is not None:
        b_q, b_k, b_v = attention.w_qkv.bias.split(attention.sizes)
        b_k = repeat_heads(b_k, heads, groups)
        b_v = repeat_heads(b_v, heads, groups)
    norms = {name: gain for name, gain in attention.named_parameters() if name.startswith("norm_")}
    k = repeat_heads(k, heads, groups)
    v = repeat_heads(v, heads, groups)
    return Projections(q, k, v, attention.w_out.weight, b_q, b_k, b_v, attention.w_out.bias, norms)
