"""CALM's learned confidence: how surely later layers would leave a token's likeliest successor as it is.

    c_l = σ(w_l · x_l + b_l)                                         x_l: the stream after layer l = 1 … L - 1
    loss = mean over tokens and l < L of BCE(c_l, 1[argmax logits(x_l) = argmax logits(x_L)])

The model's weights stay as they are. Before training all are 0 and c_l = 1/2.

Source: Schuster et al., CALM, arXiv:2207.07061, section 3.3 and appendix, the objective of independent layers. The one
of sequences of layers, there found worse, is that of `geometric`. Each layer has weights of its own here.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from typing_extensions import override

from seqloom.depth.classifier import ClassifierConfig, Confident, Seen


@final
class Learned(Confident):
    """A linear classifier of each layer but the last."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.zeros(config.depth - 1, config.dim))
        self.bias = nn.Parameter(torch.zeros(config.depth - 1))

    @override
    def confidence(self, layer: int, x: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        return torch.sigmoid(self._logit(layer, x))

    @override
    def loss(self, seen: Seen) -> Float[Tensor, ""]:
        logits = torch.stack([self._logit(layer, x) for layer, x in enumerate(seen.streams[:-1], 1)], -1)
        return binary_cross_entropy_with_logits(logits, seen.same[..., :-1].to(logits.dtype))

    def _logit(self, layer: int, x: Tensor) -> Tensor:
        return x.to(self.weight.dtype) @ self.weight[layer - 1] + self.bias[layer - 1]
