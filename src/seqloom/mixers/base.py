"""What every causal mixer shares: it checks arguments, packs dropped tokens away, and counts each row's tokens.

A mixer writes its equation once, in `mix`, over a whole sequence or over a piece that follows a state. A single token
is a piece of one token; where it has a faster form, that is in `advance`.
"""

from abc import ABC, abstractmethod

from typing_extensions import override

from seqloom.core.mixer import Mixer
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
from seqloom.ops.past.pack import pack, unpack


class PackedMixer(Mixer):
    """A causal mixer that only ever sees rows padded on the right."""

    @abstractmethod
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        """The equation over x (B, T, D): the outputs, and the entries that `state_spec` declares after the last token.

        Without a `state` x is the whole sequence, and the entries are not used. With `lengths` (B,) each row holds that
        many tokens, then padding, on which the entries may not depend. No output may depend on a later token.
        """

    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        """One token for every row; with `reuse` the entries of the state may be written into."""
        y, entries = self.mix(x[:, None], state)
        if reuse:
            entries = {name: state[name].copy_(entry.detach()) for name, entry in entries.items()}
        return y[:, 0], entries

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone()
        if keep is None:
            return self.mix(x)[0]
        rows, packing = pack(x, keep)
        return unpack(self.mix(rows)[0], packing)

    @override
    def extend(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        if 0 in x.shape:
            return x.clone(), copy_state(state)
        T = x.shape[1]
        state = with_room(self.state_spec, bound_state(state), T)
        length = length_of(state)
        if keep is None:
            y, entries = self.mix(x, state)
            return y, count_read(entries, length.after(T, T))
        rows, packing = pack(x, keep)
        y, entries = self.mix(rows, state, packing.lengths)
        return unpack(y, packing), count_read(entries, measure_length(length.tokens + packing.lengths))

    @override
    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        """See `Mixer.step`. Raises ValueError where a state with gradients is to be reused."""
        return self.read_token(self.check_step(x, state, reuse), state, reuse)

    @override
    def read_token(self, x: Token, state: State, reuse: bool) -> tuple[Token, State]:
        if x.shape[0] == 0:
            return x.clone(), copy_state(state)
        state = with_slot(self.state_spec, bound_state(state), reuse)
        y, entries = self.advance(x, state, reuse)
        return y, step_state(entries, state)


class CachingMixer(PackedMixer, ABC):
    """A causal mixer whose state has caches or windows, into which `mix` itself writes a token."""

    @abstractmethod
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        """As in `PackedMixer`; with `reuse` x is one token, and entries of the state may be written into."""

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        y, entries = self.mix(x[:, None], state, reuse=reuse)
        return y[:, 0], entries
