"""What every bidirectional mixer shares: it reads whole sequences only, checks arguments, packs dropped tokens away."""

from abc import abstractmethod
from typing import Any, NoReturn

from typing_extensions import override

from seqloom.core.cost import Cost, Per
from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Keep, Lengths, Stream
from seqloom.core.state_spec import StateSpec
from seqloom.ops.past.pack import pack, unpack


class WholeSequenceMixer(Mixer):
    """A mixer whose outputs may depend on every token of their row. It has no state and no price per token."""

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {}

    def start(self, batch: int, *, capacity: int | None = None) -> NoReturn:
        """Raises ValueError, as do `extend` and `step`."""
        raise self._reads_whole("start")

    def extend(self, x: Any, state: Any, keep: Any = None) -> NoReturn:
        """Raises ValueError, since a bidirectional mixer cannot continue from a state."""
        raise self._reads_whole("extend")

    def step(self, x: Any, state: Any, *, reuse: bool = False) -> NoReturn:
        """Raises ValueError."""
        raise self._reads_whole("step")

    @override
    def cost(self, T: int, per: Per = "sequence") -> Cost:
        """Raises ValueError for the price of a single token, too."""
        if per == "token":
            raise self._reads_whole("price per token")
        return super().cost(T, per)

    def _reads_whole(self, verb: str) -> ValueError:
        return ValueError(f"{type(self).__name__} is bidirectional and reads whole sequences: it has no {verb}")


class BidirectionalMixer(WholeSequenceMixer):
    """A bidirectional mixer that only ever sees rows padded on the right."""

    @abstractmethod
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        """The equation over x (B, T, D), the whole sequence.

        With `lengths` (B,) each row holds that many tokens, then zeros, on which no output of a token may depend. The
        outputs at their positions are not used.
        """

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone()
        if keep is None:
            return self.mix(x)
        rows, packing = pack(x, keep)
        return unpack(self.mix(rows, packing.lengths), packing)
