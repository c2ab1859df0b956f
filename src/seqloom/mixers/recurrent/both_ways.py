"""Both ways: a causal mixer reads each row from its start, a second one from its end, and their outputs are joined.

    f_t = forward(x)_t,   b_t = backward(x reversed)_{T+1-t}      two mixers of the same settings with own weights
    `join: sum`      y_t = f_t + b_t
    `join: concat`   y_t = [f_t, b_t] W_out                        W_out (2D, D), no bias
    `join: states`   y_t = C [h_t, h'_t] + D x_t                   s5 only: one system, C over both states

Source: Schuster and Paliwal, Bidirectional Recurrent Neural Networks, 1997 (doi:10.1109/78.650093), who join the two in
the output layer: `concat`; `states` is the bidirectional option of S5, arXiv:2208.04933, which `s5` computes. Each row
is reversed between its own first and last token, so that padding changes nothing. There the mixers are recurrent
networks; here they are any causal ones.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field, SerializeAsAny, field_validator, model_validator
from torch import nn
from typing_extensions import override

from seqloom.core import extras
from seqloom.core.cost import Cost, Span
from seqloom.core.extras import Extras
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, mixer_config, register
from seqloom.core.shapes import Keep, Stream
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.bidirectional import WholeSequenceMixer
from seqloom.mixers.composed import ComposedConfig, ComposedMixer, choose_config

TRAITS = Traits(causal="never", streams=False, state="none")
DEFAULT = {"kind": "gru"}
"""the settings of both mixers unless a kind is set"""


@final
class BothWays(WholeSequenceMixer, ComposedMixer):
    """Two causal mixers of `dim` channels, one of which reads each row from its end."""

    def __init__(self, forward_mixer: Mixer, backward_mixer: Mixer, join: Literal["sum", "concat"]) -> None:
        super().__init__()
        self.dim, self.forward_mixer, self.backward_mixer = forward_mixer.dim, forward_mixer, backward_mixer
        self.w_out = Linear(2 * self.dim, self.dim, bias=False) if join == "concat" else None
        self.traits = replace(TRAITS, longest=forward_mixer.traits.longest)

    @property
    @override
    def mixers(self) -> dict[str, Mixer]:
        return {"forward_mixer": self.forward_mixer, "backward_mixer": self.backward_mixer}

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        x = self.check_input(x, keep, 3)
        return self._join_directions(
            self.forward_mixer(x, keep), self.backward_mixer(x.flip(1), flip_mask(keep)).flip(1)
        )

    @override
    def forward_with_extras(self, x: Stream, keep: Keep | None = None) -> tuple[Stream, Extras]:
        x = self.check_input(x, keep, 3)
        f, forward_extras = self.forward_mixer.forward_with_extras(x, keep)
        b, backward_extras = self.backward_mixer.forward_with_extras(x.flip(1), flip_mask(keep))
        all_extras = extras.merge_extras(
            [forward_extras.under("forward_mixer"), backward_extras.under("backward_mixer")]
        )
        return self._join_directions(f, b.flip(1)), all_extras

    @override
    def plots(self, x: Stream) -> list[View]:
        """The views of both mixers; those of `backward_mixer` are in the order in which it reads, from the end."""
        views_by_name = {
            "forward_mixer": self.forward_mixer.plots(x),
            "backward_mixer, from the end": self.backward_mixer.plots(x.flip(1)),
        }
        return [
            View(f"{name}: {view.name}", view.meaning, view.axes, view.values)
            for name, views in views_by_name.items()
            for view in views
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        added = Cost(add=span.rows * self.dim, path=("addition",))
        return self.forward_mixer, added if self.w_out is None else self.w_out

    def _join_directions(self, f: Stream, b: Stream) -> Stream:
        """y from f and b."""
        return f + b if self.w_out is None else self.w_out(torch.cat([f, b], -1))


def flip_mask(keep: Keep | None) -> Keep | None:
    """The mask of reversed rows; dropped tokens stay dropped at their reversed positions."""
    return None if keep is None else keep.flip(1)


@register
class BothWaysConfig(ComposedConfig):
    """Both ways: a causal mixer reads each row from its start, another of the same settings from its end."""

    kind: Literal["both_ways"] = "both_ways"
    mixer: SerializeAsAny[MixerConfig] = Field(
        default_factory=lambda: mixer_config(DEFAULT), description="settings of the causal mixer of each direction"
    )
    join: Literal["sum", "concat", "states"] = Field(
        "sum",
        description="how the directions are joined: sum; concat: concatenated, then W_out; states: as s5 does, with "
        "C over both states",
    )
    nearest: ClassVar = "gru"
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(128, "twice what a GRU rounds, since two are added")
    examples: ClassVar = ({}, {"mixer": {"kind": "he"}, "join": "concat"})

    @field_validator("mixer", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        return choose_config(value, DEFAULT)

    @model_validator(mode="after")
    def _has_states(self) -> "BothWaysConfig":
        if self.join == "states" and self.mixer.kind != "s5":
            raise ValueError(f"join=states is a form of s5 alone, not of {self.mixer.kind}: choose sum or concat")
        return self

    @property
    @override
    def inner(self) -> dict[str, MixerConfig]:
        return {"forward_mixer": self.mixer, "backward_mixer": self.mixer}

    @property
    @override
    def has_window(self) -> bool:
        return self.mixer.has_window

    @override
    def with_window(self, window: int) -> "BothWaysConfig | None":
        mixer = self.mixer.with_window(window)
        return None if mixer is None else self.model_copy(update={"mixer": mixer})

    @override
    def make(self, layer: Layer) -> Mixer:
        if self.join == "states":
            return self.mixer.build(layer.dim, layer.context, causal=False)
        causal_layer = replace(layer, causal=True)
        return BothWays(
            self.build_inner("forward_mixer", causal_layer), self.build_inner("backward_mixer", causal_layer), self.join
        )
