"""The classes of swapped models, made from those of transformers, and what the Auto classes know of them.

    LlamaForCausalLM → SwappedLlamaForCausalLM

A swapped class builds the model that it is made from, and puts mixers in the place of attention.
"""

from functools import cache
from typing import Any

import transformers
from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedModel

from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import mixer_config
from seqloom.hf.cache import can_crop
from seqloom.hf.strict import StrictlyLoaded
from seqloom.hf.swap.attention import SwappedAttention
from seqloom.hf.swap.config import swapped_config
from seqloom.hf.swap.families import Family, family_of
from seqloom.hf.swap.masks import hand_on_tokens
from seqloom.runs.layer_source import known_code

PREFIX = "Swapped"
AUTO = (
    *("AutoModel", "AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM"),
    *("AutoModelForSequenceClassification", "AutoModelForTokenClassification", "AutoModelForQuestionAnswering"),
    "AutoModelForImageClassification",
)
"""the Auto classes that find swapped models"""


class Swapped(StrictlyLoaded):
    """What all swapped models share, before the class of transformers."""

    def __init__(self, config: Any, *args: Any, **settings: Any) -> None:
        super().__init__(config, *args, **settings)
        put_mixers(self, build_mixers(config))

    @property
    def _is_stateful(self) -> bool:
        """Whether `generate` must refuse to take tokens back: a mixer's state may not tell what it was before."""
        return any(not can_crop(module.mixer) for module in self.modules() if isinstance(module, SwappedAttention))


@cache
def swapped_class(base: type[PreTrainedModel]) -> type[PreTrainedModel]:
    """The class of swapped models that were of class `base`."""
    assert base.config_class is not None
    members = {"config_class": swapped_config(base.config_class), "__module__": __name__}
    return type(PREFIX + base.__name__, (Swapped, base), members)


def build_mixers(config: Any) -> dict[int, Mixer]:
    """The mixers that a swapped config describes, by the number of their layer. ValueError where one does not fit."""
    family, swap = family_of(config), config.seqloom_swap
    mixers = {}
    for number, values in swap["layers"].items():
        with known_code():
            settings = mixer_config(values)
        position = family.position(config, settings)
        mixer = settings.build(config.hidden_size, swap["context"], family.causal, position=position)
        if mixer.loss_weights:
            raise ValueError(
                f"{settings.kind} adds {', '.join(mixer.loss_weights)} to the loss, which transformers cannot: swap a "
                "model of seqloom (seqloom.load reads folders of transformers)"
            )
        mixers[int(number)] = mixer
    return mixers


def put_mixers(model: PreTrainedModel, mixers: dict[int, Mixer]) -> None:
    """Puts mixers in the place of attention, and the hook that tells them which positions are tokens."""
    family = family_of(model.config)
    layers = family.layers_of(model)
    for number, mixer in mixers.items():
        _put(layers[number], family.attention, SwappedAttention(mixer, number, passes_bias=family.keeps_first))
        if family.output:
            _put(layers[number], family.output, nn.Identity())
    family.body(model).register_forward_pre_hook(hand_on_tokens, with_kwargs=True)


def attention_of(layer: nn.Module, family: Family) -> nn.Module:
    """The module in the place of a layer's attention."""
    return layer.get_submodule(family.attention)


def _put(layer: nn.Module, path: str, module: nn.Module) -> None:
    """Replaces the module at a path inside of a layer."""
    owner, _, name = path.rpartition(".")
    layer.get_submodule(owner).register_module(name, module)


def class_named(name: str) -> type[PreTrainedModel]:
    """The class of this name in a config's `architectures`. ValueError where it is that of no swapped model."""
    base = getattr(transformers, name.removeprefix(PREFIX), None)
    if not name.startswith(PREFIX) or not isinstance(base, type) or not issubclass(base, PreTrainedModel):
        raise ValueError(f"{name!r} is the class of no swapped model")
    return swapped_class(base)


def register_base(kind: str) -> None:
    """The Auto classes find swapped models of this base; a second time changes nothing."""
    base = CONFIG_MAPPING[kind]
    for auto in (getattr(transformers, name) for name in AUTO):
        if base in auto._model_mapping:
            found = auto._model_mapping[base]
            model = found[0] if isinstance(found, tuple) else found
            auto.register(swapped_config(base), swapped_class(model), exist_ok=True)
