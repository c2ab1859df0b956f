"""What every mixer made of other mixers shares: each part keeps its rules; state entries start with its name."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from typing_extensions import override

from seqloom.core import extras
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig, mixer_config
from seqloom.core.position import Place, PositionConfig
from seqloom.core.state_spec import StateSpec
from seqloom.core.view import View
from seqloom.mixers.cross_layer import CrossLayer


class ComposedMixer(Mixer):
    """A mixer whose submodules hold other mixers. Each part has its own initialization,
    optimizer groups and auxiliary losses."""

    @property
    @abstractmethod
    def mixers(self) -> dict[str, Mixer]:
        """The mixers that it is made of, by the names of their submodules."""

    @override
    def reset(self, std: float) -> None:
        """Each part initializes itself after the plain rule."""
        super().reset(std)
        for mixer in self.mixers.values():
            mixer.reset(std)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the parts, then one of its own parameters, where it has any."""
        part_groups = [group for mixer in self.mixers.values() for group in mixer.param_groups()]
        grouped = {id(parameter) for group in part_groups for parameter in group["params"]}
        remaining = [parameter for parameter in self.parameters() if id(parameter) not in grouped]
        return [*part_groups, {"params": remaining}] if remaining else part_groups

    @property
    @override
    def loss_weights(self) -> dict[str, float]:
        return {f"{name}.{loss}": w for name, mixer in self.mixers.items() for loss, w in mixer.loss_weights.items()}

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        for name, mixer in self.mixers.items():
            mixer.after_update(step, extras.without_prefix(statistics, name))

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {
            f"{name}.{entry}": spec for name, mixer in self.mixers.items() for entry, spec in mixer.state_spec.items()
        }

    @override
    def plots(self, x: Tensor) -> list[View]:
        return [
            View(f"{name}: {view.name}", view.meaning, view.axes, view.values)
            for name, mixer in self.mixers.items()
            for view in mixer.plots(x)
        ]


class ComposedConfig(MixerConfig):
    """The settings of a mixer made of other mixers."""

    @property
    @abstractmethod
    def inner(self) -> dict[str, MixerConfig]:
        """The settings of the mixers that it is made of, by name."""

    @property
    @override
    def places(self) -> frozenset[Place]:
        return frozenset().union(*(config.places for config in self.inner.values()))

    @override
    def shared_module(self, layer: Layer) -> nn.Module | None:
        """What each part shares with the same part of other layers."""
        shared = {name: config.shared_module(inner_layer(config, layer)) for name, config in self.inner.items()}
        modules = {name: module for name, module in shared.items() if module is not None}
        return nn.ModuleDict(modules) if modules else None

    @override
    def distinct(self, depth: int) -> int:
        return max(config.distinct(depth) for config in self.inner.values())

    def build_inner(self, name: str, layer: Layer) -> Mixer:
        """The mixer of `inner[name]`, built for the same layer. ValueError if later layers read what it computes."""
        config = self.inner[name]
        inner = inner_layer(config, layer)
        shared = dict(layer.shared.named_children()) if layer.shared is not None else {}
        mixer = config.build(
            inner.dim, inner.context, inner.causal, inner.number, inner.depth, shared.get(name), inner.position
        )
        if isinstance(mixer, CrossLayer):
            raise ValueError(
                f"{self.kind} cannot pass on what {config.kind} hands over to later layers: choose another mixer"
            )
        return mixer


def inner_layer(config: MixerConfig, layer: Layer) -> Layer:
    """The layer for which a part is built: without the layer's position if the part has no place for it."""
    position: PositionConfig | None = layer.position
    if position is not None and position.place not in config.places:
        position = None
    return replace(layer, position=position)


def choose_config(value: Any, default: dict[str, Any]) -> MixerConfig:
    """The settings of a mixer from a dict; without `kind` it changes the default. ValueError for other types."""
    if isinstance(value, dict):
        return mixer_config(value if "kind" in value else {**default, **value})
    if isinstance(value, MixerConfig):
        return value
    raise ValueError("a mixer is given by its settings, such as {kind: rwkv}")
