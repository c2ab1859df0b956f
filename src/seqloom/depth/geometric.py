"""A layer for each token, layer by layer: go on or end here (Depth-Adaptive's geometric-like classifier).

    χ_n = σ(w_n · x_n + b_n)                                        x_n: the stream after layer n = 1 … L - 1
    q(n) = χ_n Π_{m<n} (1 - χ_m),   q(L) = Π_{m<L} (1 - χ_m)
    loss = mean over tokens of -ln q(n*_t)                           n*: `seqloom.depth.oracles`

A token ends at the first n with χ_n ≥ 1/2, or another threshold. The number of layers is a Poisson-binomial's first
success: the sticks that are broken off the rest add up to 1.

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

from seqloom.depth.classifier import Confident, Seen, TaughtConfig
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
class Geometric(Confident):
    """A linear classifier for each layer but the last, which together give a distribution over all layers."""

    usual = 0.5

    def __init__(self, config: GeometricConfig) -> None:
        super().__init__(config)
        self.config: GeometricConfig = config

    def log_law(self, streams: list[Float[Tensor, "B T D"]]) -> Float[Tensor, "B T L"]:
        """ln q for all layers (B, T, L)."""
        logits = self.logits(streams)
        log_none = logsigmoid(-logits).cumsum(-1)  # ln Π_{m≤n} (1 - χ_m)
        log_reached = torch.cat([torch.zeros_like(log_none[..., :1]), log_none], -1)
        return log_reached + torch.cat([logsigmoid(logits), torch.zeros_like(log_none[..., :1])], -1)

    @override
    def loss(self, seen: Seen) -> Float[Tensor, ""]:
        return -self.log_law(seen.streams).gather(-1, self.target(seen)[..., None] - 1).mean()

    @override
    def target(self, seen: Seen) -> Int[Tensor, "B T"]:
        return token_oracle(seen.worth(self.config.oracle), self.config.penalty, self.config.width)
