"""SPADE's bottom layer: a mixer with a long reach and one with a short reach in parallel, and a linear map of both.

    y = [norm(far(x)), norm(near(x))] W_out            one layer norm for each; W_out (2D, D), no bias

`far` and `near` can be any two mixers; in the paper they are a state space model and attention over a window. The
layers above have local attention only, which is a list of mixers in a model's settings (the preset `paper/spade`).

Source: Zuo et al., Efficient Long Sequence Modeling via State Space Augmented Transformer, arXiv:2212.08136. In the
authors' code W_out has a bias, and local attention is over 512 tokens and has relative positions.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field, SerializeAsAny, field_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core import extras
from seqloom.core.cost import Cost, Span
from seqloom.core.extras import Extras
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, mixer_config, register
from seqloom.core.shapes import Keep, Stream, Token
from seqloom.core.state import Entries, State, bound_state, count_read, length_of
from seqloom.layers.linear import Linear
from seqloom.mixers.composed import ComposedConfig, ComposedMixer, choose_config

TRAITS = Traits(causal="always", streams=True, state="window")
STATES = ("none", "constant", "window", "grows")
"""kinds of state by how they grow with the text"""
FAR, NEAR = {"kind": "s4"}, {"kind": "attention", "window": 128}
"""the settings of `far` and `near` unless they name a kind"""


@final
class Spade(ComposedMixer):
    """Two mixers of `dim` channels in parallel. State: that of both, under `far.` and `near.`, and one `length`."""

    def __init__(self, far: Mixer, near: Mixer) -> None:
        super().__init__()
        self.dim, self.far, self.near = far.dim, far, near
        self.traits = weaker(far.traits, near.traits)
        self.norm_far, self.norm_near = (nn.LayerNorm(far.dim, eps=1e-5) for _ in range(2))
        self.w_out = Linear(2 * far.dim, far.dim, bias=False)

    @property
    @override
    def mixers(self) -> dict[str, Mixer]:
        return {"far": self.far, "near": self.near}

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        x = self.check_input(x, keep, 3)
        return self._mix_outputs([mixer(x, keep) for mixer in self.mixers.values()], keep)

    @override
    def forward_with_extras(self, x: Stream, keep: Keep | None = None) -> tuple[Stream, Extras]:
        x = self.check_input(x, keep, 3)
        results = {name: mixer.forward_with_extras(x, keep) for name, mixer in self.mixers.items()}
        all_extras = extras.merge_extras(own_extras.under(name) for name, (_, own_extras) in results.items())
        return self._mix_outputs([y for y, _ in results.values()], keep), all_extras

    @override
    def extend(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        state = bound_state(state)
        results = {name: mixer.extend(x, part_state(state, name), keep) for name, mixer in self.mixers.items()}
        new_state = join_states({name: new_part for name, (_, new_part) in results.items()})
        return self._mix_outputs([y for y, _ in results.values()], keep), new_state

    @override
    def extend_with_extras(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State, Extras]:
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        results = {
            name: mixer.extend_with_extras(x, part_state(state, name), keep) for name, mixer in self.mixers.items()
        }
        all_extras = extras.merge_extras(own_extras.under(name) for name, (_, _, own_extras) in results.items())
        new_state = join_states({name: new_part for name, (_, new_part, _) in results.items()})
        return self._mix_outputs([y for y, _, _ in results.values()], keep), new_state, all_extras

    @override
    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        return self.read_token(self.check_step(x, state, reuse), state, reuse)

    @override
    def read_token(self, x: Token, state: State, reuse: bool) -> tuple[Token, State]:
        state = bound_state(state)
        results = {name: mixer.read_token(x, part_state(state, name), reuse) for name, mixer in self.mixers.items()}
        new_state = join_states({name: new_part for name, (_, new_part) in results.items()})
        return self._mix_outputs([y for y, _ in results.values()], None), new_state

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        longer = max(self.mixers.values(), key=lambda mixer: len(mixer.price(span).path))
        return longer, self.norm_far, self.w_out

    def _mix_outputs(self, outputs: list[Tensor], keep: Tensor | None) -> Tensor:
        """y from the outputs of far and near."""
        far, near = (y.to(self.norm_far.weight.dtype) for y in outputs)
        y: Tensor = self.w_out(torch.cat([self.norm_far(far), self.norm_near(near)], -1))
        return y if keep is None else torch.where(keep[:, :, None], y, 0.0)


def weaker(far: Traits, near: Traits) -> Traits:
    """The traits of two mixers in parallel: only what both can do."""
    both, streams = (far, near), far.streams and near.streams
    longest = [traits.longest for traits in both if traits.longest is not None]
    causal: Literal["always", "either", "never"] = "always"
    if "never" in (far.causal, near.causal):
        causal = "never"
    elif "either" in (far.causal, near.causal):
        causal = "either"
    return Traits(
        causal=causal,
        streams=streams,
        state=max((traits.state for traits in both), key=STATES.index) if streams else "none",
        longest=min(longest, default=None),
        selects_ahead=far.selects_ahead or near.selects_ahead,
    )


def join_states(parts: dict[str, State]) -> State:
    """One state from those of several mixers that have read the same tokens; they share `length`."""
    entries: Entries = {
        f"{name}.{key}": tensor for name, part in parts.items() for key, tensor in part.items() if key != "length"
    }
    return count_read(entries, length_of(next(iter(parts.values()))))


def part_state(state: State, name: str) -> State:
    """The state of the mixer of that name, from a state that `join_states` returned."""
    entries = {key.removeprefix(f"{name}."): tensor for key, tensor in state.items() if key.startswith(f"{name}.")}
    return count_read(entries, length_of(state))


@register
class SpadeConfig(ComposedConfig):
    """SPADE's bottom layer: a global and a local mixer in parallel."""

    kind: Literal["spade"] = "spade"
    far: SerializeAsAny[MixerConfig] = Field(
        default_factory=lambda: mixer_config(FAR), description="settings of the global mixer"
    )
    near: SerializeAsAny[MixerConfig] = Field(
        default_factory=lambda: mixer_config(NEAR), description="settings of the local mixer"
    )
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        12000, "its far half is an S4, and the norm of each half divides by a deviation that may be small"
    )
    examples: ClassVar = ({"far": {"kind": "he_extraction"}, "near": {"kind": "me"}},)

    @field_validator("far", mode="before")
    @classmethod
    def _far(cls, value: Any) -> Any:
        return choose_config(value, FAR)

    @field_validator("near", mode="before")
    @classmethod
    def _near(cls, value: Any) -> Any:
        return choose_config(value, NEAR)

    @property
    @override
    def inner(self) -> dict[str, MixerConfig]:
        return {"far": self.far, "near": self.near}

    @property
    @override
    def has_window(self) -> bool:
        return self.near.has_window

    @override
    def with_window(self, window: int) -> "SpadeConfig | None":
        """These settings with another window of the local mixer; None if it has none."""
        near = self.near.with_window(window)
        return None if near is None else self.model_copy(update={"near": near})

    @override
    def make(self, layer: Layer) -> Spade:
        return Spade(self.build_inner("far", layer), self.build_inner("near", layer))
