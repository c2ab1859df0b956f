"""The settings of a mixer, and the registry of its kinds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

from torch import nn

from seqloom.core.config import SizedConfig, read, suggestion
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.position import Place, PositionConfig
from seqloom.core.registry import Registry


@dataclass(frozen=True)
class Rounding:
    """The rounding error that is allowed in float32, of outputs and gradients at initialization, up to 4,096 tokens.

    It is the largest absolute difference divided by the largest absolute value (`seqloom.analysis.rounding`).
    """

    eps: int = 64
    """the bound in eps of float32, 1.2e-7"""
    reason: str = "√4096 eps: the sum of rounding errors, in random directions, over 4,096 terms"


class MixerConfig(SizedConfig, ABC):
    """The settings of one kind of mixer. `dim` and `context` belong to the model and are given when it is built."""

    kind: str
    traits: ClassVar[Traits]
    examples: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    """settings under which the tests run the mixer, at dim 8"""
    rounding: ClassVar[Rounding] = Rounding()
    long_views: ClassVar[bool] = False
    """whether `Mixer.views` needs a text as long as the context and `tokens_back` together to show anything"""
    nearest: ClassVar[str | None] = None
    """for a kind without a causal form: the most similar kind that a decoder can use"""
    drawings: ClassVar[tuple[dict[str, Any], ...]] = ()
    """settings whose patterns `seqloom list --patterns` draws; a `causal` among them chooses the form (default True)"""
    equation_version: ClassVar[int] = 1
    """raised where outputs, gradients or states for the same weights change, or the first
    weights do (`tests/recordings/equations.py`), so that no run goes on with another equation without a word"""

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
        sizes that do not fit.
        """
        self.require_form(causal)
        if position is not None and position.place not in self.places:
            raise ValueError(f"{self.kind} has no place for {position.kind} positions, which act on {position.place}")
        unshared = Layer(dim, context, causal, layer, depth, position)
        shared_module = self.shared(unshared) if shared is None else shared
        mixer = self.make(replace(unshared, shared=shared_module))
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

    def shared(self, layer: Layer) -> nn.Module | None:
        """The module that all layers with these settings share, given the first of them; by default None.

        A model builds, initializes, prices, trains and saves it once. Each layer's mixer reads it as `self.shared`.
        """
        return None

    def drawn(self, T: int, causal: bool) -> dict[str, list[str]]:
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
register = _registry.register
unregister = _registry.unregister
kinds = _registry.kinds
"""every registered kind of mixer by name; `seqloom.mixers` registers ours"""


def mixer_config(values: dict[str, Any]) -> MixerConfig:
    """The settings of a mixer from plain values with a `kind`; ValueError for an unknown kind or setting."""
    if "kind" not in values:
        raise ValueError("a mixer needs a kind, such as {kind: attention}: `seqloom list` has them all")
    kind = values["kind"]
    if not isinstance(kind, str) or kind not in kinds():
        raise ValueError(f"unknown mixer {kind!r}; {suggestion(str(kind), kinds())}")
    config: MixerConfig = read(kinds()[kind], values)
    return config
