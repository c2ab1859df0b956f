"""A loop that keeps of each layer only its input, and computes the layer again in the backward.

    x = layer_n(x)        n = 1 … depth

Memory of depth · (B, T, D) and of one layer's activations, for one more forward. Dropout draws the same in both.

Source: Chen et al., arXiv:1604.06174; by torch's checkpoint without reentry.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from seqloom.models.loop import Layer, Loop
from seqloom.models.verbs import Verb
from seqloom.ops.backends import checkpoint_contexts


@final
class RecomputeLoop(Loop):
    """The layers one after the other, each computed a second time where gradients are wanted."""

    uncaptured_reason = "training.recompute=layer computes layers again in the backward"

    @override
    def __call__(self, layers: Sequence[Layer], x: Tensor, verb: Verb) -> Tensor:
        if not torch.is_grad_enabled():
            return super().__call__(layers, x, verb)
        for number, layer in enumerate(layers):
            x = checkpoint(layer, x, verb.call(number), use_reentrant=False, context_fn=checkpoint_contexts)
        return x
