"""The second sublayer of a layer: the Transformer's feed-forward network, or what replaces it.

It fulfils the contract of a mixer, so a layer calls, prices, trains and saves both sublayers in the same way. Most have
no memory: their state is the number of tokens read, which a layer stores once for both sublayers.
"""

from typing_extensions import override

from seqloom.mixers.base import PackedMixer


class FFNSublayer(PackedMixer):
    """A causal mixer that follows the layer's own mixer."""

    def init(self) -> None:
        """Initializes the parameters that are not in a linear layer, embedding or norm; by default there are none."""

    @override
    def reset(self, std: float) -> None:
        """Initializes all parameters again; those of `init` do not depend on `std`."""
        super().reset(std)
        self.init()
