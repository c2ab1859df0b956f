"""The settings of a mixer, and the registry of its kinds."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from inspect import isabstract
from typing import Any, ClassVar, Self, TypeVar, final

from torch import nn

from seqloom.core.config import SizedConfig, read, suggestion
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.named_object import object_name
from seqloom.core.position import Place, PositionConfig
from seqloom.core.registry import Registry
from seqloom.core.yaml_text import parse_yaml

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
"""the kinds that can be written wherever a mixer is named: in settings, as a contender, as a folder"""


@dataclass(frozen=True)
class Rounding:
    """The rounding error that is allowed in float32, of outputs and gradients at initialization, up to 4,096 tokens.

    It is the largest absolute difference divided by the largest absolute value (`seqloom.analysis.rounding`).
    """

    eps: int = 64
    """the bound in eps of float32, 1.2e-7"""
    reason: str = "√4096 eps: the sum of rounding errors, in random directions, over 4,096 terms"


class BrokenMixer(ValueError):
    """An error of a mixer's own code, whatever the settings: it ends the program, or makes no mixer."""


class MixerConfig(SizedConfig, ABC):
    """The settings of one kind of mixer. `dim` and `context` belong to the model and are given when it is built."""

    kind: str
    traits: ClassVar[Traits]
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """settings under which the tests run the mixer, at dim 8"""
    rounding: ClassVar[Rounding] = Rounding()
    long_views: ClassVar[bool] = False
    """whether `Mixer.plots` needs a text as long as the context and `tokens_back` together to show anything"""
    nearest: ClassVar[str | None] = None
    """for a kind without a causal form: the most similar kind that a decoder can use"""
    drawings: ClassVar[tuple[dict[str, Any], ...]] = ()
    """settings whose patterns `seqloom list --patterns` draws; a `causal` among them chooses the form (default True)"""
    equation_version: ClassVar[int] = 1
    """raised where outputs, gradients or states for the same weights change, or the first
    weights do (`tests/recordings/equations.py`), so that no run goes on with another equation without a word"""

    @classmethod
    def source_class(cls) -> type[Any]:
        """The class whose code computes what these settings say; by default this one, in whose file the mixer is."""
        return cls

    @final
    def build(
        self,
        dim: int,
        context: int | None,
        causal: bool = True,
        layer: int = 0,
        depth: int = 1,
        shared: nn.Module | None = None,
        position: PositionConfig | None = None,
    ) -> Mixer:
        """The mixer for `dim` channels that looks back on `context` tokens (None: on all), freshly initialized.

        `layer` counts from 0 over the `depth` layers of this kind. `shared` is what the method `shared` made for all
        layers of these settings; if None, it is made here. `position` acts in one of `places`. Raises ValueError where
        the wanted form (causal or bidirectional) does not exist, where the position cannot act in this mixer, and for
        sizes that do not fit; `BrokenMixer` where `make` exits or returns something else.
        """
        self.require_form(causal)
        if position is not None and position.place not in self.places:
            raise ValueError(f"{self.kind} has no place for {position.kind} positions, which act on {position.place}")
        unshared = Layer(dim, context, causal, layer, depth, position)
        try:
            shared_module = self.shared_module(unshared) if shared is None else shared
            mixer = self.make(replace(unshared, shared=shared_module))
        except SystemExit as end:
            raise BrokenMixer(f"{self.kind} cannot be built: its code ends the program (exit {end.code!r})") from end
        if not isinstance(mixer, Mixer):
            raise BrokenMixer(f"{self.kind} cannot be built: its make returns {type(mixer).__name__} and not a mixer")
        if shared_module is not None:
            mixer.share(shared_module, owned=shared is None)
        return mixer

    def require_form(self, causal: bool) -> None:
        """Raises ValueError where the wanted form does not exist; the error names kinds that have it."""
        if causal and self.traits.causal == "never":
            nearest = f"; the nearest kind that has one is {self.nearest}" if self.nearest else ""
            raise ValueError(
                f"{self.kind} is bidirectional: it has no causal form, so a decoder cannot use it{nearest}"
            )
        if not causal and not self.has_bidirectional:
            others = ", ".join(name for name, config in kinds().items() if config.traits.causal != "always")
            raise ValueError(f"{self.kind} is causal: it has no bidirectional form; these have: {others or 'none'}")

    @property
    def has_bidirectional(self) -> bool:
        """Whether these settings have a bidirectional form."""
        return self.traits.causal != "always"

    @property
    def places(self) -> frozenset[Place]:
        """Where a positional encoding can act in this mixer; by default nowhere."""
        return frozenset()

    def shared_module(self, layer: Layer) -> nn.Module | None:
        """The module that all layers with these settings share, given the first of them; by default None.

        A model builds, initializes, prices, trains and saves it once. Each layer's mixer reads it as
        `self.shared_module`.
        """
        return None

    def draw_pattern(self, T: int, causal: bool) -> dict[str, list[str]]:
        """The attention pattern over T positions as text: by the names of heads, a row of letters for each query.

        Empty, as by default, for a mixer that has no pattern to draw.
        """
        return {}

    @property
    def tokens_back(self) -> int | None:
        """The most tokens before its own that an output depends on; None, as by default, if nothing limits it."""
        return None

    @property
    def has_window(self) -> bool:
        """Whether these settings limit how many tokens a token looks back on; by default not."""
        return False

    def with_window(self, window: int) -> Self | None:
        """These settings with a window of `window` tokens; None, as by default, if the mixer cannot have one.

        The weights fit both. The stages of a training may have different windows.
        """
        return None

    def distinct(self, depth: int) -> int:
        """How many of the first of `depth` layers differ in weights or price; all later ones equal the last of these.

        It is 1 unless the mixer depends on `Layer.number`.
        """
        return 1

    @abstractmethod
    def make(self, layer: Layer) -> Mixer:
        """The mixer of these settings for a layer; called by `build`, which has checked that the form exists."""


_registry: Registry[MixerConfig] = Registry("mixer")
unregister = _registry.unregister
restore = _registry.restore
search_by = _registry.search_by
find_objects_by = _registry.find_objects_by
declare = _registry.declare
find = _registry.find
registered_kinds = _registry.registered_kinds
"""the kinds of mixers whose modules are imported, by name"""
kinds = _registry.kinds
"""every kind of mixer by name, all of whose modules it imports; `seqloom.mixers` declares ours"""
C = TypeVar("C", bound=MixerConfig)


def register(config: type[C]) -> type[C]:
    """Adds the settings of a kind of mixer to the registry, and returns them: a class decorator.

    Raises ValueError for a name that another class has or that is none, and for a class without traits or `make`.
    """
    kind = config.model_fields["kind"].default
    if not isinstance(kind, str) or NAME.fullmatch(kind) is None or parse_yaml(kind) != kind:
        shown = repr(kind)[:40] if isinstance(kind, str) else "missing"
        raise ValueError(
            f"the kind of {config.__name__} is {shown}: it is a name of at most 64 letters, digits, _ and - that "
            "begins with a letter and that YAML reads as text"
        )
    if not isinstance(getattr(config, "traits", None), Traits):
        raise ValueError(f"{kind} has no traits: give {config.__name__} `traits: ClassVar = Traits(…)`")
    if isabstract(config):
        missing = ", ".join(sorted(config.__abstractmethods__))
        raise ValueError(f"{kind} is abstract: {config.__name__} has no {missing}")
    _registry.register(config)
    return config


def mixer_config(values: dict[str, Any]) -> MixerConfig:
    """The settings of a mixer from plain values with a `kind`; ValueError for an unknown kind or setting.

    A kind that is not registered yet is looked for among installed packages, wherever the settings are nested. The
    class of any layer, or its name `module:Layer` or `file.py:Layer`, is a kind, whose settings are its arguments.
    """
    if "kind" not in values:
        raise ValueError("a mixer needs a kind, such as {kind: attention}: `seqloom list` has them all")
    kind = values["kind"]
    if isinstance(kind, type):
        kind = object_name(kind)
        values = {**values, "kind": kind}
    found = _registry.find(kind)
    if found is None:
        raise ValueError(f"unknown mixer {kind!r}; {suggestion(str(kind), kinds())}")
    config: MixerConfig = read(found, values)
    return config
