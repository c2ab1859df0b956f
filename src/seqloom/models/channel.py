"""What stands in the second half of a layer, where the Transformer has a feed-forward network.

It keeps the contract of a mixer, so that a layer asks both halves the same and whatever is priced, trained or saved of
a mixer is so of its second half. Most remember nothing: their state is the number of tokens read, which a layer holds
once for both halves.
"""

from typing_extensions import override

from seqloom.mixers.base import PackedMixer


class Channel(PackedMixer):
    """A causal mixer that a model puts after the one that is chosen."""

    def begin(self) -> None:
        """Puts what is no linear layer, embedding or norm where it begins before training; by default there is none."""

    @override
    def reset(self, std: float) -> None:
        """The parameters of its own go back to where they begin, whatever `std`."""
        super().reset(std)
        self.begin()
