"""Mixers that hand tensors over to the later layers of the same pass, such as the values of the first layer.

What is handed over is an argument and a result of each verb, by name: (B, T, …), or (B, …) of one token. It is not part
of a state, since every layer reads the same tokens. A mixer outside of a model acts as the first layer, which receives
nothing. A bidirectional mixer may hand over tensors of any length, such as tokens of its own.
"""

from abc import ABC, abstractmethod
from typing import TypeAlias, final

from torch import Tensor
from typing_extensions import override

from seqloom.core.memory import with_room, with_slot
from seqloom.core.shapes import Keep, Lengths, Stream, Token
from seqloom.core.state import Entries, State, bounded, copied, counted, length_of, measured, stepped
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.past.pack import pack, unpack

Handed: TypeAlias = dict[str, Tensor]


class Handing(ABC):
    """A mixer whose layers pass tensors on to later layers of its kind. It has no extras."""

    @abstractmethod
    def forward_handed(self, x: Stream, keep: Keep | None, handed: Handed) -> tuple[Stream, Handed]:
        """As `forward`, with what earlier layers handed over; also returns what later layers receive."""


class BidirectionalHandingMixer(BidirectionalMixer, Handing):
    """A bidirectional mixer whose layers hand tensors (B, …) over; they are not packed, whatever tokens are dropped."""

    @abstractmethod
    def read_handed(self, x: Stream, handed: Handed, lengths: Lengths | None = None) -> tuple[Stream, Handed]:
        """As `read`, with what earlier layers handed over; also returns what later layers receive."""

    @override
    def forward_handed(self, x: Stream, keep: Keep | None, handed: Handed) -> tuple[Stream, Handed]:
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone(), handed
        if keep is None:
            return self.read_handed(x, handed)
        rows, packing = pack(x, keep)
        y, handed_on = self.read_handed(rows, handed, packing.lengths)
        return unpack(y, packing), handed_on

    @final
    @override
    def read(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        return self.read_handed(x, {}, lengths)[0]


class HandingMixer(PackedMixer, Handing):
    """A causal mixer whose layers hand tensors over."""

    @abstractmethod
    def read_handed(
        self, x: Stream, handed: Handed, state: State | None = None, lengths: Lengths | None = None
    ) -> tuple[Stream, Entries, Handed]:
        """As `read`, with what earlier layers handed over (B, T, …); also returns what later layers receive."""

    def advance_handed(self, x: Token, state: State, reuse: bool, handed: Handed) -> tuple[Token, Entries, Handed]:
        """As `advance`, with what earlier layers handed over (B, …); also returns what later layers receive."""
        handed_piece = {name: values[:, None] for name, values in handed.items()}
        y, entries, handed_on = self.read_handed(x[:, None], handed_piece, state)
        if reuse:
            entries = {name: state[name].copy_(entry.detach()) for name, entry in entries.items()}
        return y[:, 0], entries, {name: values[:, 0] for name, values in handed_on.items()}

    @override
    def forward_handed(self, x: Stream, keep: Keep | None, handed: Handed) -> tuple[Stream, Handed]:
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone(), handed
        if keep is None:
            y, _, handed_on = self.read_handed(x, handed)
            return y, handed_on
        rows, packing = pack(x, keep)
        y, _, handed_on = self.read_handed(rows, {name: pack(values, keep)[0] for name, values in handed.items()})
        return unpack(y, packing), {name: unpack(values, packing) for name, values in handed_on.items()}

    def extend_handed(self, x: Stream, state: State, keep: Keep | None, handed: Handed) -> tuple[Stream, State, Handed]:
        """As `extend`, with what earlier layers handed over for this piece; also returns what later layers receive."""
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        if 0 in x.shape:
            return x.clone(), copied(state), handed
        T = x.shape[1]
        state = with_room(self.memory, bounded(state), T)
        length = length_of(state)
        if keep is None:
            y, entries, handed_on = self.read_handed(x, handed, state)
            return y, counted(entries, length.after(T, T)), handed_on
        rows, packing = pack(x, keep)
        packed = {name: pack(values, keep)[0] for name, values in handed.items()}
        y, entries, handed_on = self.read_handed(rows, packed, state, packing.lengths)
        new_state = counted(entries, measured(length.tokens + packing.lengths))
        return unpack(y, packing), new_state, {name: unpack(values, packing) for name, values in handed_on.items()}

    def step_handed(self, x: Token, state: State, reuse: bool, handed: Handed) -> tuple[Token, State, Handed]:
        """As `read_token`, with what earlier layers handed over; also returns what later layers receive."""
        if x.shape[0] == 0:
            return x.clone(), copied(state), handed
        state = with_slot(self.memory, bounded(state), reuse)
        y, entries, handed_on = self.advance_handed(x, state, reuse, handed)
        return y, stepped(entries, state), handed_on

    @final
    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        y, entries, _ = self.read_handed(x, {}, state, lengths)
        return y, entries

    @final
    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        y, entries, _ = self.advance_handed(x, state, reuse, {})
        return y, entries
