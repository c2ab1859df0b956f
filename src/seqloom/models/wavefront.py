"""A loop whose layers go on from states that come from elsewhere, such as another process, and whose states go there.

    x, h_n = receive(x, h_n),   x, h'_n = layer_n(x, h_n),   x = send(x, h'_n)        n = 1 … depth

The state of a layer leaves as soon as the layer has run, so that who goes on from it can begin with that layer.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, final

from torch import Tensor
from typing_extensions import override

from seqloom.core.state import LayerState
from seqloom.models.loop import Layer, Loop
from seqloom.models.transformer import Transformer
from seqloom.models.verbs import Verb


class Exchange(Protocol):
    """Takes and gives the states of the layers, in their order; `x` (B, T, D) is passed through."""

    def receive(self, x: Tensor, states: LayerState) -> tuple[Tensor, LayerState]:
        """The states from which a layer goes on, in the place of `states`, which are laid out alike."""

    def send(self, x: Tensor, states: LayerState) -> Tensor:
        """Gives away the states of a layer after it has run, without unused room."""


@final
class Wavefront(Loop):
    """The layers one after the other, each with the states of an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @override
    def __call__(self, layers: Sequence[Layer], x: Tensor, verb: Verb) -> Tensor:
        for number, layer in enumerate(layers):
            call = verb.call(number)
            x, call.before = self._exchange.receive(x, call.before)
            x = layer(x, call)
            after = zip(layer.sublayers, call.record.state, strict=True)
            x = self._exchange.send(x, tuple(sublayer.trim(state) for sublayer, state in after))
        return x


@contextmanager
def exchange_states(model: Transformer, exchange: Exchange) -> Iterator[None]:
    """Inside the block the model's layers take their states from an exchange, and give them to it."""
    own = model.loop
    model.loop = Wavefront(exchange)
    try:
        yield
    finally:
        model.loop = own
