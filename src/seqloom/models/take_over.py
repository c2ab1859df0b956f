"""What a mixer takes over from the attention in whose place it stands.

Its matrices of queries, keys, values and outputs are those of attention where the shapes agree; keys and values that
several heads of queries share are repeated. A convolution of what was taken over begins as the identity. All else stays
as it was drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn

from seqloom.core.mixer_config import MixerConfig
from seqloom.core.settings_text import split_settings
from seqloom.core.yaml_text import parse_yaml
from seqloom.mixers import find, mixer_config

Init = Literal["projections", "fresh"]
Given: TypeAlias = str | type[nn.Module] | Mapping[str, Any]
"""a mixer as it is named: by its kind, by the class of a layer, or by its settings"""
OUTPUTS = ("w_o", "w_out")
"""names of output projections"""
INNER = ("near", "forward_mixer", "backward_mixer")
"""mixers inside of others that take over too: the attention of `spade`, and both directions of `both_ways`"""


@final
@dataclass(frozen=True)
class Projections:
    """The matrices of an attention, as (outputs, inputs), one head after another; and its biases, where it has any."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    b_q: Tensor | None = None
    b_k: Tensor | None = None
    b_v: Tensor | None = None
    b_o: Tensor | None = None
    norms: Mapping[str, Tensor] = field(default_factory=dict)
    """gains of the norms of queries and keys, by the name that our attention gives them"""


def repeat_heads(weight: Tensor, heads: int, groups: int) -> Tensor:
    """The rows of `groups` heads, repeated for each of `heads` heads of queries."""
    return weight.unflatten(0, (groups, -1)).repeat_interleave(heads // groups, 0).flatten(0, 1)


def replacement(given: Given, heads: int, width: int) -> MixerConfig:
    """The settings of a mixer in the place of attention: heads as many and as wide, unless `given` has others.

    `given` is a kind, such as `gated_delta`, with settings as `linear:features=hedgehog`, or the settings, or the class
    of a layer. ValueError where they are the settings of no mixer.
    """
    if isinstance(given, type):
        given = {"kind": given}
    values = _read_name(given) if isinstance(given, str) else dict(given)
    config = find(values.get("kind", ""))
    if config is None:
        return mixer_config(values)  # its error names a similar kind
    sizes = {"heads": heads, "key_width": width, "value_width": width}
    fitting = {name: size for name, size in sizes.items() if name in config.model_fields}
    return mixer_config({**fitting, **values})


def _read_name(text: str) -> dict[str, Any]:
    """The settings that `KIND` or `KIND:NAME=VALUE,…` names. ValueError where it is neither."""
    kind, settings = split_settings(text, "a mixer", "linear:features=hedgehog")
    values: dict[str, Any] = {"kind": kind}
    for setting in settings:
        name, _, value = setting.partition("=")
        values[name] = parse_yaml(value)
    return values


@torch.no_grad()
def take_over(attention: Projections, mixer: nn.Module) -> tuple[str, ...]:
    """Copies what fits into the mixer; returns the names of its parameters that were set."""
    parameters = dict(mixer.named_parameters())
    taken = []
    for name, offer in _offers(attention).items():
        parameter = parameters.get(name)
        if parameter is not None and parameter.shape == offer.shape:
            parameter.copy_(offer)
            taken.append(name)
    convolution = mixer._modules.get("conv")
    if "w_qkv.weight" in taken and convolution is not None:
        taken += _begin_as_identity(convolution)
    for inner in INNER:
        module = mixer._modules.get(inner)
        if module is not None:
            taken += [f"{inner}.{name}" for name in take_over(attention, module)]
    return tuple(taken)


def _offers(attention: Projections) -> dict[str, Tensor]:
    """What attention has, by the names under which mixers have it."""
    weights: dict[str, Tensor | None] = {
        "w_q.weight": attention.q,
        "w_k.weight": attention.k,
        "w_v.weight": attention.v,
        "w_qkv.weight": torch.cat([attention.q, attention.k, attention.v]),
        **{f"{output}.weight": attention.o for output in OUTPUTS},
        **{f"{output}.bias": attention.b_o for output in OUTPUTS},
        **attention.norms,
    }
    biases = (attention.b_q, attention.b_k, attention.b_v)
    present = [bias for bias in biases if bias is not None]
    if len(present) == len(biases):
        weights["w_qkv.bias"] = torch.cat(present)
    return {name: weight for name, weight in weights.items() if weight is not None}


def _begin_as_identity(convolution: nn.Module) -> list[str]:
    """Sets taps (W, C), the latest input first, to pass this input on alone; returns the names that were set."""
    names = []
    for name, parameter in convolution.named_parameters():
        parameter.zero_()
        if name == "weight":
            parameter[0] = 1.0
        names.append(f"conv.{name}")
    return names
