"""SPADE's bottom layer: one mixer that reads far and one that reads near, side by side, and what both found mixed.

    y = [norm(far(x)), norm(near(x))] W_out            layer norms of their own, W_out (2D, D), no bias

`far` and `near` are the settings of any two mixers: in the paper a state space model and attention over a window. The
layers above have local attention alone, which is a list of mixers in a model's settings (the preset `paper/spade`).

Source: Zuo et al., Efficient Long Sequence Modeling via State Space Augmented Transformer, arXiv:2212.08136. Theirs has
a bias in W_out, in the authors' code; local attention there looks back on 512 tokens and has relative positions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field, SerializeAsAny, field_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core import extras
from seqloom.core.cost import Cost, Span
from seqloom.core.extras import Extras
from seqloom.core.layer import Layer
from seqloom.core.memory import Memory
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, mixer_config, register
from seqloom.core.position import Place, PositionConfig
from seqloom.core.shapes import Keep, Stream, Token
from seqloom.core.state import Entries, State, bounded, counted, length_of
from seqloom.core.view import View
from seqloom.mixers.handing import HandingMixer
from seqloom.ops.projection import Linear

TRAITS = Traits(causal="always", streams=True, state="window")
STATES = ("none", "constant", "window", "grows")
FAR, NEAR = {"kind": "s4"}, {"kind": "attention", "window": 128}
"""the settings of both where no kind is set"""


@final
class Spade(Mixer):
    """Two mixers of `dim` channels side by side. State: that of both, under `far.` and `near.`, and one `length`."""

    def __init__(self, far: Mixer, near: Mixer) -> None:
        super().__init__()
        self.dim, self.far, self.near = far.dim, far, near
        self.traits = weaker(far.traits, near.traits)
        self.norm_far, self.norm_near = (nn.LayerNorm(far.dim, eps=1e-5) for _ in range(2))
        self.w_out = Linear(2 * far.dim, far.dim, bias=False)

    @property
    def both(self) -> dict[str, Mixer]:
        """The two mixers by name."""
        return {"far": self.far, "near": self.near}

    @override
    def reset(self, std: float) -> None:
        """Each of the two has the last word on its own."""
        super().reset(std)
        for mixer in self.both.values():
            mixer.reset(std)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of both, then its own."""
        own = [*self.norm_far.parameters(), *self.norm_near.parameters(), *self.w_out.parameters()]
        return [*(group for mixer in self.both.values() for group in mixer.param_groups()), {"params": own}]

    @property
    @override
    def loss_weights(self) -> dict[str, float]:
        return {f"{name}.{loss}": w for name, mixer in self.both.items() for loss, w in mixer.loss_weights.items()}

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        for name, mixer in self.both.items():
            mixer.after_update(step, extras.within(statistics, name))

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        x = self.check_input(x, keep, 3)
        return self._mixed([mixer(x, keep) for mixer in self.both.values()], keep)

    @override
    def forward_with_extras(self, x: Stream, keep: Keep | None = None) -> tuple[Stream, Extras]:
        x = self.check_input(x, keep, 3)
        read = {name: mixer.forward_with_extras(x, keep) for name, mixer in self.both.items()}
        of_both = extras.merged(own.under(name) for name, (_, own) in read.items())
        return self._mixed([y for y, _ in read.values()], keep), of_both

    @property
    @override
    def memory(self) -> Memory:
        return {
            f"{name}.{entry}": declared for name, mixer in self.both.items() for entry, declared in mixer.memory.items()
        }

    @override
    def extend(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        state = bounded(state)
        read = {name: mixer.extend(x, parted(state, name), keep) for name, mixer in self.both.items()}
        return self._mixed([y for y, _ in read.values()], keep), joined({name: read[name][1] for name in read})

    @override
    def extend_with_extras(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State, Extras]:
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        read = {name: mixer.extend_with_extras(x, parted(state, name), keep) for name, mixer in self.both.items()}
        of_both = extras.merged(own.under(name) for name, (_, _, own) in read.items())
        after = joined({name: then for name, (_, then, _) in read.items()})
        return self._mixed([y for y, _, _ in read.values()], keep), after, of_both

    @override
    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        x = self.check_step(x, state, reuse)  # before one of them writes
        state = bounded(state)
        read = {name: mixer.step(x, parted(state, name), reuse=reuse) for name, mixer in self.both.items()}
        return self._mixed([y for y, _ in read.values()], None), joined({name: read[name][1] for name in read})

    @override
    def views(self, x: Stream) -> list[View]:
        return [
            View(f"{name}: {view.name}", view.meaning, view.axes, view.values)
            for name, mixer in self.both.items()
            for view in mixer.views(x)
        ]

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        longer = max(self.both.values(), key=lambda mixer: len(mixer.price(span).path))
        return longer, self.norm_far, self.w_out

    def _mixed(self, read: list[Tensor], keep: Tensor | None) -> Tensor:
        far, near = (y.to(self.norm_far.weight.dtype) for y in read)
        y: Tensor = self.w_out(torch.cat([self.norm_far(far), self.norm_near(near)], -1))
        return y if keep is None else torch.where(keep[:, :, None], y, 0.0)


def weaker(far: Traits, near: Traits) -> Traits:
    """What two mixers can do together."""
    both, streams = (far, near), far.streams and near.streams
    longest = [traits.longest for traits in both if traits.longest is not None]
    return Traits(
        causal=next((c for c in ("never", "either") if c in (far.causal, near.causal)), "always"),
        streams=streams,
        state=max((traits.state for traits in both), key=STATES.index) if streams else "none",
        longest=min(longest, default=None),
        selects_ahead=far.selects_ahead or near.selects_ahead,
    )


def joined(parts: dict[str, State]) -> State:
    """The states of several mixers that have read the same as one; `length` is of all."""
    entries: Entries = {
        f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.items() if key != "length"
    }
    return counted(entries, length_of(next(iter(parts.values()))))


def parted(state: State, name: str) -> State:
    """The state of one of them."""
    entries = {key.removeprefix(f"{name}."): tensor for key, tensor in state.items() if key.startswith(f"{name}.")}
    return counted(entries, length_of(state))


def chosen(value: Any, usual: dict[str, Any]) -> MixerConfig:
    """The mixer of some settings; those without a kind change the usual ones. ValueError for anything else."""
    if isinstance(value, dict):
        return mixer_config(value if "kind" in value else {**usual, **value})
    if isinstance(value, MixerConfig):
        return value
    raise ValueError("a mixer is given by its settings, such as {kind: rwkv}")


@register
class SpadeConfig(MixerConfig):
    """SPADE's bottom layer: one mixer that reads far and one that reads near, side by side."""

    kind: Literal["spade"] = "spade"
    far: SerializeAsAny[MixerConfig] = Field(
        default_factory=lambda: mixer_config(FAR), description="settings of the mixer that reads far"
    )
    near: SerializeAsAny[MixerConfig] = Field(
        default_factory=lambda: mixer_config(NEAR), description="settings of the mixer that reads near"
    )
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        12000, "its far half is an S4, and the norm of each half divides by a deviation that may be small"
    )
    examples: ClassVar = ({"far": {"kind": "he_extraction"}, "near": {"kind": "me"}},)

    @field_validator("far", mode="before")
    @classmethod
    def _far(cls, value: Any) -> Any:
        return chosen(value, FAR)

    @field_validator("near", mode="before")
    @classmethod
    def _near(cls, value: Any) -> Any:
        return chosen(value, NEAR)

    @override
    def make(self, layer: Layer) -> Spade:
        """Both stand in the same layer."""
        parts = dict(layer.shared.named_children()) if layer.shared is not None else {}

        def part(name: str, config: MixerConfig) -> Mixer:
            position = _position(config, layer)
            mixer = config.build(
                layer.dim, layer.context, layer.causal, layer.number, layer.depth, parts.get(name), position
            )
            if isinstance(mixer, HandingMixer):
                raise ValueError(f"spade cannot pass on what {config.kind} hands over to later layers: choose another")
            return mixer

        return Spade(part("far", self.far), part("near", self.near))

    @property
    @override
    def places(self) -> frozenset[Place]:
        return self.far.places | self.near.places

    @override
    def shared(self, layer: Layer) -> nn.Module | None:
        """What each of the two shares."""
        configs: dict[str, MixerConfig] = {"far": self.far, "near": self.near}
        parts = {
            name: config.shared(replace(layer, position=_position(config, layer))) for name, config in configs.items()
        }
        made = {name: part for name, part in parts.items() if part is not None}
        return nn.ModuleDict(made) if made else None


def _position(config: MixerConfig, layer: Layer) -> PositionConfig | None:
    """The layer's position, where a part has a place for it."""
    return layer.position if layer.position is not None and layer.position.place in config.places else None
