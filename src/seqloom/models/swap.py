"""A model whose attention is replaced in some layers, with all other weights as they were.

    swap(model, {1: "gated_delta", 2: "gated_delta"})

What a new mixer shares with attention it takes over: its projections of queries, keys and values where they have as
many rows (shared keys and values repeated for each head of queries), and that of the output; a convolution of what was
taken over begins as the identity. All else is drawn as in a new model, and no mixer computes what attention did:
without training, such a model writes noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import Model
from seqloom.mixers import kinds, mixer_config
from seqloom.mixers.attention.attention import Attention
from seqloom.models.config import TransformerConfig

Init = Literal["projections", "fresh"]
OUTPUTS = ("w_o.weight", "w_out.weight")
"""names of output projections"""


@final
@dataclass(frozen=True)
class SwappedLayer:
    """What happened to a layer: names of the new mixer's parameters."""

    number: int
    kind: str
    taken_over: tuple[str, ...]
    drawn: tuple[str, ...]


def swap(
    model: Model, layers: Mapping[int, str | Mapping[str, Any]], *, init: Init = "projections"
) -> tuple[Model, list[SwappedLayer]]:
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
        taken = _take_over(old, new) if init == "projections" else ()
        drawn = tuple(name for name, _ in new.named_parameters() if name not in taken)
        found.append(SwappedLayer(number, settings.mixers[number].kind, taken, drawn))
    return other, found


def swapped_settings(config: TransformerConfig, layers: Mapping[int, str | Mapping[str, Any]]) -> TransformerConfig:
    """The settings of the model with these mixers; nothing is built. ValueError as `swap` has it."""
    if not layers:
        raise ValueError("no layer is named whose attention is to be replaced")
    mixers: list[MixerConfig] = list(config.mixers)
    for number, given in layers.items():
        if not 0 <= number < config.depth:
            raise ValueError(f"there is no layer {number}: the model has layers 0 to {config.depth - 1}")
        if mixers[number].kind != "attention":
            raise ValueError(f"layer {number} has {mixers[number].kind}, not attention")
        mixers[number] = _new_mixer(mixers[number], config.dim, given)
    changes: dict[str, Any] = {"mixer": tuple(mixers)}
    place = config.position.place
    if place not in (None, "embedding", "layers") and not any(place in mixer.places for mixer in mixers):
        changes["position"] = {"kind": "none"}
    values = {**config.model_dump(mode="json"), **changes}
    values["mixer"] = [mixer.model_dump(mode="json") for mixer in mixers]
    settings: TransformerConfig = type(config).model_validate(values)
    return settings


def _new_mixer(attention: Any, dim: int, given: str | Mapping[str, Any]) -> MixerConfig:
    """The settings of a mixer in the place of attention. ValueError where they are none, or it is not causal."""
    if not isinstance(given, str):
        return mixer_config(dict(given))
    if given not in kinds():
        return mixer_config({"kind": given})  # its error names a similar kind
    fields = kinds()[given].model_fields
    width = attention.head_width(dim)
    sizes = {"heads": attention.heads, "key_width": width, "value_width": width}
    return mixer_config({"kind": given, **{name: size for name, size in sizes.items() if name in fields}})


@torch.no_grad()
def _take_over(old: Attention, new: Mixer) -> tuple[str, ...]:
    """Copies what fits; returns the names of the new mixer's parameters that were set."""
    parameters = dict(new.named_parameters())
    q, k, v = old.w_qkv.weight.split(old.sizes)
    repeats = old.heads // old.kv_heads
    k, v = (_repeat(part, old.kv_heads, repeats) for part in (k, v))
    offers: dict[str, Tensor] = {"w_q.weight": q, "w_k.weight": k, "w_v.weight": v}
    offers |= {"w_qkv.weight": torch.cat([q, k, v]), **dict.fromkeys(OUTPUTS, old.w_out.weight)}
    taken = []
    for name, offer in offers.items():
        parameter = parameters.get(name)
        if parameter is not None and parameter.shape == offer.shape:
            parameter.copy_(offer)
            taken.append(name)
    convolution = new._modules.get("conv")
    if "w_qkv.weight" in taken and convolution is not None:
        taken += _begin_as_identity(convolution)
    return tuple(taken)


def _begin_as_identity(convolution: nn.Module) -> list[str]:
    """Sets taps (W, C), the latest input first, to pass this input on alone; returns the names that were set."""
    names = []
    for name, parameter in convolution.named_parameters():
        parameter.zero_()
        if name == "weight":
            parameter[0] = 1.0
        names.append(f"conv.{name}")
    return names


def _repeat(weight: Tensor, heads: int, repeats: int) -> Tensor:
    """The rows of each head, repeated for the heads of queries that share it."""
    return weight.unflatten(0, (heads, -1)).repeat_interleave(repeats, 0).flatten(0, 1)
