"""What every causal mixer shares: arguments checked, dropped tokens packed away, rows of different lengths.

A mixer says what it does to rows that are padded on the right, in three verbs: `mix` a whole sequence, `carry` on from
a state by a piece, `advance` by one token.
"""

from abc import abstractmethod

import torch

from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Keep, Lengths, Stream, Token
from seqloom.core.state import Entries, State, bounded, copied, counted, length_of, measured
from seqloom.ops.pack import pack, unpack


class PackedMixer(Mixer):
    """A causal mixer that only ever sees rows padded on the right."""

    @abstractmethod
    def mix(self, x: Stream) -> Stream:
        """The whole sequence. What it writes for a place may depend on that place and earlier ones only."""

    @abstractmethod
    def carry(self, x: Stream, state: State, lengths: Lengths) -> tuple[Stream, Entries]:
        """A piece of which each row holds `lengths` (B,) tokens, then padding; what `memory` declares, after those."""

    @abstractmethod
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        """One token for every row; what `memory` declares, after it."""

    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        """See `Mixer.forward`."""
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone()
        if keep is None:
            return self.mix(x)
        rows, places = pack(x, keep)
        return unpack(self.mix(rows), places)

    def extend(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        """See `Mixer.extend`."""
        x = self.check_input(x, keep, 3)
        self.check_state(state, len(x))
        if 0 in x.shape:
            return x.clone(), copied(state)
        state = bounded(state)
        length, T = length_of(state), x.shape[1]
        if keep is None:
            y, entries = self.carry(x, state, torch.full_like(length.tokens, T))
            return y, counted(entries, length.after(T, T))
        rows, places = pack(x, keep)
        y, entries = self.carry(rows, state, places.lengths)
        return unpack(y, places), counted(entries, measured(length.tokens + places.lengths))

    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        """See `Mixer.step`. Raises ValueError where a state that gradients flow through is to be reused."""
        x = self.check_step(x, state, reuse)
        if len(x) == 0:
            return x.clone(), copied(state)
        state = bounded(state)
        y, entries = self.advance(x, state, reuse)
        return y, counted(entries, length_of(state).after(1, 1))
