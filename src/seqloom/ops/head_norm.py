"""The root-mean-square norm of each head by itself, with one gain for all: y / √(mean of y² + ε) ∘ gain.

Source: Zhang and Sennrich, arXiv:1910.07467; over the channels of a head as in flash-linear-attention.
"""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, rootnorm


@final
class HeadNorm(nn.RMSNorm):
    """A norm over the `width` channels of each of `heads` heads."""

    def __init__(self, heads: int, width: int, eps: float = 1e-5) -> None:
        super().__init__(width, eps=eps)
        self.heads = heads

    @override
    def forward(self, y: Float[Tensor, "B H T V"]) -> Float[Tensor, "B T D"]:
        """What the heads gave, normed and next to each other: D = H V."""
        return super().forward(y.transpose(1, 2)).flatten(2)

    def price(self, span: Span) -> Cost:
        """The operations and the critical path for these tokens of one row."""
        return rootnorm(span.rows * self.heads, self.normalized_shape[0])
