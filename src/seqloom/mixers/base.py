"""What every causal mixer shares: arguments checked, dropped tokens packed away, rows of different lengths.

A mixer says what it does to rows that are padded on the right, in three verbs: `mix` a whole sequence, `carry` on from
a state by a piece, `advance` by one token.
"""

from abc import abstractmethod

from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Keep, Lengths, Stream, Token
from seqloom.core.state import State
from seqloom.ops.pack import pack, unpack


class PackedMixer(Mixer):
    """A causal mixer that only ever sees rows padded on the right."""

    @abstractmethod
    def mix(self, x: Stream) -> Stream:
        """The whole sequence. What it writes for a place may depend on that place and earlier ones only."""

    @abstractmethod
    def carry(self, x: Stream, state: State, lengths: Lengths) -> tuple[Stream, State]:
        """A piece of which each row holds `lengths` (B,) tokens, then padding; the state after those tokens."""

    @abstractmethod
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, State]:
        """One token for every row; `seen` counts on."""

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
            return x.clone(), {name: tensor.clone() for name, tensor in state.items()}
        if keep is None:
            return self.carry(x, state, state["seen"].new_full((len(x),), x.shape[1]))
        rows, places = pack(x, keep)
        y, state = self.carry(rows, state, places.lengths)
        return unpack(y, places), state

    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        """See `Mixer.step`. Raises ValueError where a state that gradients flow through is to be reused."""
        x = self.check_step(x, state, reuse)
        if len(x) == 0:
            return x.clone(), {name: tensor.clone() for name, tensor in state.items()}
        return self.advance(x, state, reuse)
