"""The loop over a model's layers.

    x = layer_n(x)        n = 1 … depth

`reversible` has another one; early exits, halting and what follows a layer in a decoder that reads a source are in
`exits`, `universal` and `translator`.
"""

from collections.abc import Sequence
from typing import Protocol, final

from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.models.verbs import LayerCall, Verb


class Layer(Protocol):
    """What a loop calls: a block, or a block with something around it."""

    def __call__(self, x: Tensor, call: LayerCall) -> Tensor:
        """The stream after the layer."""

    @property
    def sublayers(self) -> tuple[Mixer, ...]:
        """See `Block.sublayers`."""

    def reads(self, number: int, x: Tensor) -> Tensor:
        """See `Block.reads`."""


class Loop:
    """The layers one after the other."""

    uncaptured_reason = ""
    """see `Model.uncaptured_reason`"""
    without_exits = ""
    """why no layer's stream is what the output layer reads, if so"""

    def __call__(self, layers: Sequence[Layer], x: Tensor, verb: Verb) -> Tensor:
        """The stream after all layers, given the embeddings x (B, T, D), or (B, D) of one token."""
        for number, layer in enumerate(layers):
            x = layer(x, verb.call(number))
        return x


@final
class WithSignal:
    """A layer whose input is the stream and a vector of each position, `signal` (B, T, D)."""

    def __init__(self, layer: Layer, signal: Tensor) -> None:
        self.layer = layer
        self.signal = signal

    def __call__(self, x: Tensor, call: LayerCall) -> Tensor:
        """The stream after the layer."""
        return self.layer(self._input(x), call)

    @property
    def sublayers(self) -> tuple[Mixer, ...]:
        """See `Block.sublayers`."""
        return self.layer.sublayers

    def reads(self, number: int, x: Tensor) -> Tensor:
        """See `Block.reads`."""
        return self.layer.reads(number, self._input(x))

    def _input(self, x: Tensor) -> Tensor:
        return x + (self.signal[:, 0] if x.ndim == 2 else self.signal)
