"""The last layer of each token: a decision after every layer (Depth-Adaptive's geometric-like classifier).

    χ_n = σ(w_n · x_n + b_n)                                        x_n: the stream after layer n = 1 … L - 1
    q(n) = χ_n Π_{m<n} (1 - χ_m),   q(L) = Π_{m<L} (1 - χ_m)
    loss = mean over tokens of -ln q(n*_t)                           n*: `seqloom.depth.oracles`

A token ends at the first n with χ_n ≥ 1/2, or another threshold. q is the distribution of the first success in trials
of probability χ_n, where the last layer is a success in any case; it sums to 1.

Source: Elbayad et al., Depth-Adaptive Transformer, arXiv:1910.10073, section 4.2. What differs: the model's weights
stay as they are, where the paper trains both.
"""

from typing import Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn.functional import logsigmoid
from typing_extensions import override

from seqloom.depth.classifier import ConfidenceClassifier, LayerPredictions, TaughtConfig
from seqloom.depth.oracles import token_oracle


@final
class GeometricConfig(TaughtConfig):
    """A layer for each token: after each one, whether it is the last."""

    kind: Literal["geometric"] = "geometric"
    width: float = Field(1.0, gt=0, description="σ of the kernel that averages over neighboring tokens")

    @override
    def build(self) -> "Geometric":
        return Geometric(self)


@final
class Geometric(ConfidenceClassifier):
    """A linear classifier for each layer but the last, which together give a distribution over all layers."""

    def __init__(self, config: GeometricConfig) -> None:
        super().__init__(config)
        self.config: GeometricConfig = config

    def log_law(self, streams: list[Float[Tensor, "B T D"]]) -> Float[Tensor, "B T L"]:
        """ln q of all layers."""
        logits = self.logits(streams)
        log_passed = logsigmoid(-logits).cumsum(-1)  # ln Π_{m≤n} (1 - χ_m)
        zero = torch.zeros_like(log_passed[..., :1])
        log_reached = torch.cat([zero, log_passed], -1)  # ln Π_{m<n} (1 - χ_m)
        log_ends = torch.cat([logsigmoid(logits), zero], -1)  # ln χ_n, and 0 after the last layer
        return log_reached + log_ends

    @override
    def loss(self, predictions: LayerPredictions) -> Float[Tensor, ""]:
        return -self.log_law(predictions.streams).gather(-1, self.target(predictions)[..., None] - 1).mean()

    @override
    def target(self, predictions: LayerPredictions) -> Int[Tensor, "B T"]:
        return token_oracle(predictions.worth(self.config.oracle), self.config.penalty, self.config.width)
