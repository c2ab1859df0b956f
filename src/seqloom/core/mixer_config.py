"""The settings of a mixer, and the registry of its kinds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

from torch import nn

from seqloom.core.config import SizedConfig, near, read
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.position import Place, PositionConfig
from seqloom.core.registry import Registry


@dataclass(frozen=True)
class Rounding:
    """The allowed rounding error of float32: outputs and gradients at initialization, up to 4,096 tokens.

    The largest absolute difference over the largest absolute value, see `seqloom.analysis.rounding`.
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
    """whether `Mixer.views` shows something of a text alone that is as long as a context and `tokens_back` together"""
    nearest: ClassVar[str | None] = None
    """of a kind without a causal form, the kind that comes nearest to it in a decoder"""
    drawings: ClassVar[tuple[dict[str, Any], ...]] = ()
    """settings whose patterns `seqloom list --patterns` draws; `causal` among them is the form, else True"""

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

        `layer` counts from 0 over the `depth` layers of its kind; outside a model it is 0 of 1. `shared` is what
        the method of that name made for all layers of these settings; None makes it here. `position` acts in one of its
        `places`. Raises ValueError where there is no causal or no bidirectional form or no place for the position, and
        for sizes that do not fit.
        """
        self.require_form(causal)
        if position is not None and position.place not in self.places:
            raise ValueError(f"{self.kind} has no place for {position.kind} positions, which act on {position.place}")
        asked = Layer(dim, context, causal, layer, depth, position)
        part = self.shared(asked) if shared is None else shared
        mixer = self.make(replace(asked, shared=part))
        if part is not None:
            mixer.share(part, owned=shared is None)
        return mixer

    def require_form(self, causal: bool) -> None:
        """Raises ValueError where there is no causal, or no bidirectional form; it names kinds that have one."""
        if causal and self.traits.causal == "never":
            nearest = f"; the nearest kind that has one is {self.nearest}" if self.nearest else ""
            raise ValueError(
                f"{self.kind} is bidirectional: it has no causal form, so a decoder cannot use it{nearest}"
            )
        if not causal and not self.has_bidirectional:
            both = ", ".join(name for name, config in kinds().items() if config.traits.causal != "always")
            raise ValueError(f"{self.kind} is causal: it has no bidirectional form; these have: {both or 'none'}")

    @property
    def has_bidirectional(self) -> bool:
        """Whether these settings have a bidirectional form."""
        return self.traits.causal != "always"

    @property
    def places(self) -> frozenset[Place]:
        """Where a position can act in this mixer; by default empty."""
        return frozenset()

    def shared(self, layer: Layer) -> nn.Module | None:
        """The module that all layers of these settings share, `layer` the first of them; by default None.

        A model builds, initializes, prices, trains and saves it once; each layer's mixer reads it as `self.shared`.
        """
        return None

    def drawn(self, T: int, causal: bool) -> dict[str, list[str]]:
        """Which keys the queries look at, over T positions: rows of letters by the heads that share them; or none."""
        return {}

    @property
    def tokens_back(self) -> int | None:
        """How many tokens before its own an output depends on, at most; None, as by default, if these do not say it."""
        return None

    @property
    def has_window(self) -> bool:
        """Whether these settings limit how many tokens a token looks back on; by default not."""
        return False

    def with_window(self, window: int) -> Self | None:
        """These settings with a window of so many tokens, for the same weights; None, as by default, if there is none.

        What a training changes from stage to stage.
        """
        return None

    def distinct(self, depth: int) -> int:
        """The number of first layers, of `depth`, that differ in weights or price; later ones equal the last of them.

        1 unless the mixer looks at `Layer.number`.
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
        raise ValueError(f"unknown mixer {kind!r}; {near(str(kind), kinds())}")
    config: MixerConfig = read(kinds()[kind], values)
    return config
