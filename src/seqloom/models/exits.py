"""Tokens that leave a model after one of its layers, or are read after all of them.

    streams      x_l = layer_l(x_{l-1}), all of them                        each can be read by an output layer
    leave_at     x_l = layer_l(x_{l-1}), or x_{l-1} for tokens that left    later layers read such a token unchanged
    step_until   one token, through as many layers as it needs; later ones take it into their states alone

Whatever left is still read by the mixers of later layers, because their states cannot be advanced otherwise, and by a
second sublayer that has a state.

Source: see `seqloom.training.objectives.exits`.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.mixer import Mixer
from seqloom.core.model import Enough
from seqloom.core.state import bound_state, step_state
from seqloom.models.loop import Layer
from seqloom.models.verbs import LayerCall, StepVerb, Verb


def streams(layers: Sequence[Layer], x: Tensor, verb: Verb) -> list[Tensor]:
    """The stream (B, T, D) after each layer, given the embeddings x."""
    result = []
    for number, layer in enumerate(layers):
        x = layer(x, verb.call(number))
        result.append(x)
    return result


def leave_at(layers: Sequence[Layer], x: Tensor, verb: Verb, exit_layers: Tensor) -> Tensor:
    """The stream (B, T, D) in which each token is as after the layer of its number in `exit_layers` (B, T), from 1."""
    for number, layer in enumerate(layers):
        left = (exit_layers <= number)[..., None]
        y = layer(x, _WithoutThoseThatLeft(verb.call(number), layer, x, left))
        x = torch.where(left, x, y)
    return x


def step_until(layers: Sequence[Layer], x: Tensor, verb: StepVerb, enough: Enough) -> tuple[Tensor, int]:
    """The stream (B, D) of one token after the first layer where `enough` is True, and how many it went through."""
    depth = len(layers)
    for number, layer in enumerate(layers):
        before, x = x, layer(x, verb.call(number))
        if number < depth - 1 and enough(before, x):
            depth = number + 1
            break
    for number in range(depth, len(layers)):
        _pass_by(layers[number], x, verb.call(number))
    return x, depth


def _pass_by(layer: Layer, x: Tensor, call: LayerCall) -> None:
    """The states of a layer after a token x (B, D) that skips it."""
    for number, sublayer in enumerate(layer.sublayers):
        if number == 0 or sublayer.state_spec:
            call(number, sublayer, layer.reads(number, x))
        else:
            call.record.after[number] = step_state({}, bound_state(call.before[number]))


@final
class _WithoutThoseThatLeft(LayerCall):
    """A call of a layer, in which tokens `left` (B, T, 1) skip the first sublayer for a second one with a state."""

    def __init__(self, call: LayerCall, layer: Layer, x: Tensor, left: Tensor) -> None:
        super().__init__(call.verb, call.before, None)
        self.call = call
        self.layer = layer
        self.x = x
        self.left = left

    @override
    def __call__(self, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        if number == 1 and sublayer.state_spec:
            z = torch.where(self.left, self.layer.reads(1, self.x), z)
        return self.call(number, sublayer, z)
