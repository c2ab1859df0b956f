"""The settings of a layer of any package, whose kind is the name of its class: `my.py:Layer`, `fla.layers:RWKV7`.

    mixer_config({"kind": "my.py:Layer", "heads": 4})       heads is an argument of Layer's constructor
    layer_kind("my.py:Layer")                               the class of these settings

Wherever a mixer is named, such a name may stand (`core.registry`, which asks `layer_kind` for it).
"""

from functools import cache, lru_cache
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, create_model, field_validator
from torch import nn
from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, find, mixer_config
from seqloom.core.named_object import find_object, one_line
from seqloom.mixers.layer_arguments import LayerArguments
from seqloom.mixers.layer_mixer import CausalLayer, StreamingLayer, WholeLayer
from seqloom.mixers.layer_probe import Findings, probe_layer

PLAIN = (bool, int, float, str, type(None))


class LayerConfig(MixerConfig):
    """The settings of one layer: the arguments of its constructor that are given, by name."""

    kind: str
    traits: ClassVar = Traits(causal="either", streams=True, state="constant")
    """what a layer may do; what this one does is found when it is built"""
    layer_class: ClassVar[type[nn.Module]]
    arguments: ClassVar[LayerArguments]

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """ValueError for a value that is no number, text, bool or list of such, which could not be saved."""
        if isinstance(value, list | tuple):
            return tuple(cls._plain(entry) for entry in value)
        if not isinstance(value, PLAIN):
            raise ValueError("a layer's setting is a number, a text, true or false, or a list of these")
        return value

    @override
    def _write_values(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The kind and the arguments that were given: defaults are the layer's own."""
        values: dict[str, Any] = write(self)
        return {name: value for name, value in values.items() if name == "kind" or name in self.model_fields_set}

    @override
    @classmethod
    def source_class(cls) -> type[Any]:
        return cls.layer_class

    def __reduce__(self) -> Any:
        return mixer_config, (self.model_dump(),)

    def build_layer(self, layer: Layer) -> nn.Module:
        """The module for these sizes. ValueError, which names it, where its constructor raises an error."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"kind"}}
        values = self.arguments.values(layer.dim, layer.context, layer.causal, given, layer.number)
        with one_line(f"{self.kind} cannot be built"):
            return self.layer_class(**values)

    @override
    def make(self, layer: Layer) -> Mixer:
        """The mixer. ValueError, besides those of `probe_layer`, where the layer is not of the wanted direction."""
        findings = _probe(self, layer)
        takes_context = self.arguments.context is not None and self.arguments.context not in self.model_fields_set
        longest = layer.context if takes_context else None
        if not layer.causal:
            if findings.causal and (layer.context or 2) > 1:
                raise ValueError(
                    f"{self.kind} is causal: it has no bidirectional form; {{kind: both_ways, mixer: {{kind: "
                    f"{self.kind}}}}} reads each row in both directions"
                )
            return WholeLayer(self, layer, findings, longest)
        if not findings.causal:
            raise ValueError(
                f"{self.kind} looks ahead: its outputs depend on later tokens, so a decoder cannot use it; "
                f"`seqloom verify {self.kind}` shows which"
            )
        return (CausalLayer if findings.tree is None else StreamingLayer)(self, layer, findings, longest)


@lru_cache(maxsize=256)
def _probe(config: LayerConfig, layer: Layer) -> Findings:
    return probe_layer(config.kind, lambda: config.build_layer(layer), layer.dim, layer.context)


def layer_kind(name: str) -> type[LayerConfig]:
    """The class of settings of the layer of this name. ValueError where there is none, or no class of a module."""
    kind, _, setting = name.partition(":")
    if find(kind) is not None:
        raise ValueError(f"{name!r}: a setting of {kind} is NAME=VALUE, not {setting!r}")
    return _layer_kind(name, find_object(name))


@cache
def _layer_kind(name: str, layer_class: Any) -> type[LayerConfig]:
    """As `layer_kind`; the same class for the same layer, and another one where a notebook defines it again."""
    if not isinstance(layer_class, type) or not issubclass(layer_class, nn.Module):
        raise ValueError(f"{name} is no layer: name a class that derives from torch.nn.Module")
    arguments = LayerArguments(name, layer_class)
    fields: dict[str, Any] = {
        argument: (Any, Field(default if _is_plain(default) else None, description="an argument of its constructor"))
        for argument, default in arguments.settings.items()
        if argument not in MixerConfig.model_fields and not hasattr(LayerConfig, argument)
    }
    fields["kind"] = (Literal[name], name)
    kind: Any = create_model(layer_class.__name__, __base__=LayerConfig, **fields)
    kind.layer_class, kind.arguments = layer_class, arguments
    kind.__module__, kind.__doc__ = layer_class.__module__, layer_class.__doc__ or f"The layer {name}."
    config: type[LayerConfig] = kind
    return config


def _is_plain(value: Any) -> bool:
    return isinstance(value, PLAIN) or (isinstance(value, tuple) and all(_is_plain(entry) for entry in value))
