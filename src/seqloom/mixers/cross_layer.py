"""Mixers that hand tensors over to the later layers of the same pass, such as the values of the first layer.

What is handed over is an argument and a result of each verb, by name: (B, T, …), or (B, …) of one token. It is not part
of a state, since every layer reads the same tokens. A mixer outside of a model acts as the first layer, which receives
nothing. A bidirectional mixer may hand over tensors of any length, such as tokens of its own.
"""

from abc import ABC, abstractmethod
from typing import TypeAlias, final

from torch import Tensor
from typing_extensions import override

from seqloom.core.shapes import Keep, Lengths, Stream, Token
from seqloom.core.state import (
    Entries,
    State,
    bound_state,
    copy_state,
    count_read,
    length_of,
    measure_length,
    step_state,
)
from seqloom.core.state_spec import with_room, with_slot
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.past.pack import pack, unpack

CrossLayerTensors: TypeAlias = dict[str, Tensor]


class CrossLayer(ABC):
    """A mixer whose layers pass tensors on to later layers of its kind. It has no extras."""

    @abstractmethod
    def forward_cross_layer(
        self, x: Stream, keep: Keep | None, cross_layer: CrossLayerTensors
    ) -> tuple[Stream, CrossLayerTensors]:
        """As `forward`, with what earlier layers handed over; also returns what later layers receive."""


class BidirectionalCrossLayerMixer(BidirectionalMixer, CrossLayer):
    """A bidirectional mixer whose layers hand tensors (B, …) over; they are not packed, whatever tokens are dropped."""

    @abstractmethod
    def mix_cross_layer(
        self, x: Stream, cross_layer: CrossLayerTensors, lengths: Lengths | None = None
    ) -> tuple[Stream, CrossLayerTensors]:
        """As `mix`, with what earlier layers handed over; also returns what later layers receive."""

    @override
    def forward_cross_layer(
        self, x: Stream, keep: Keep | None, cross_layer: CrossLayerTensors
    ) -> tuple[Stream, CrossLayerTensors]:
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone(), cross_layer
        if keep is None:
            return self.mix_cross_layer(x, cross_layer)
        rows, packing = pack(x, keep)
        y, passed_on = self.mix_cross_layer(rows, cross_layer, packing.lengths)
        return unpack(y, packing), passed_on

    @final
    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        return self.mix_cross_layer(x, {}, lengths)[0]


class CrossLayerMixer(PackedMixer, CrossLayer):
    """A causal mixer whose layers hand tensors over."""

    @abstractmethod
    def mix_cross_layer(
        self, x: Stream, cross_layer: CrossLayerTensors, state: State | None = None, lengths: Lengths | None = None
    ) -> tuple[Stream, Entries, CrossLayerTensors]:
        """As `mix`, with what earlier layers handed over (B, T, …); also returns what later layers receive."""

    def advance_cross_layer(
        self, x: Token, state: State, reuse: bool, cross_layer: CrossLayerTensors
    ) -> tuple[Token, Entries, CrossLayerTensors]:
        """As `advance`, with what earlier layers handed over (B, …); also returns what later layers receive."""
        piece = {name: values[:, None] for name, values in cross_layer.items()}
        y, entries, passed_on = self.mix_cross_layer(x[:, None], piece, state)
        if reuse:
            entries = {name: state[name].copy_(entry.detach()) for name, entry in entries.items()}
        return y[:, 0], entries, {name: values[:, 0] for name, values in passed_on.items()}

    @override
    def forward_cross_layer(
        self, x: Stream, keep: Keep | None, cross_layer: CrossLayerTensors
    ) -> tuple[Stream, CrossLayerTensors]:
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone(), cross_layer
        if keep is None:
            y, _, passed_on = self.mix_cross_layer(x, cross_layer)
            return y, passed_on
        rows, packing = pack(x, keep)
        y, _, passed_on = self.mix_cross_layer(
            rows, {name: pack(values, keep)[0] for name, values in cross_layer.items()}
        )
        return unpack(y, packing), {name: unpack(values, packing) for name, values in passed_on.items()}

    def extend_cross_layer(
        self, x: Stream, state: State, keep: Keep | None, cross_layer: CrossLayerTensors
    ) -> tuple[Stream, State, CrossLayerTensors]:
        """As `extend`, with what earlier layers handed over for this piece; also returns what later layers receive."""
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        if 0 in x.shape:
            return x.clone(), copy_state(state), cross_layer
        T = x.shape[1]
        state = with_room(self.state_spec, bound_state(state), T)
        length = length_of(state)
        if keep is None:
            y, entries, passed_on = self.mix_cross_layer(x, cross_layer, state)
            return y, count_read(entries, length.after(T, T)), passed_on
        rows, packing = pack(x, keep)
        packed = {name: pack(values, keep)[0] for name, values in cross_layer.items()}
        y, entries, passed_on = self.mix_cross_layer(rows, packed, state, packing.lengths)
        new_state = count_read(entries, measure_length(length.tokens + packing.lengths))
        return unpack(y, packing), new_state, {name: unpack(values, packing) for name, values in passed_on.items()}

    def step_cross_layer(
        self, x: Token, state: State, reuse: bool, cross_layer: CrossLayerTensors
    ) -> tuple[Token, State, CrossLayerTensors]:
        """As `read_token`, with what earlier layers handed over; also returns what later layers receive."""
        if x.shape[0] == 0:
            return x.clone(), copy_state(state), cross_layer
        state = with_slot(self.state_spec, bound_state(state), reuse)
        y, entries, passed_on = self.advance_cross_layer(x, state, reuse, cross_layer)
        return y, step_state(entries, state), passed_on

    @final
    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        y, entries, _ = self.mix_cross_layer(x, {}, state, lengths)
        return y, entries

    @final
    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        y, entries, _ = self.advance_cross_layer(x, state, reuse, {})
        return y, entries
