"""The norm of each head by itself, and the gate next to it.

    norm(y) = y / √(mean of y² + ε) ∘ gain                       over the channels of a head; one gain for all heads
    norm(y) ∘ silu(z)   or   norm(y) ∘ σ(z)                      the gate after it
    norm(y ∘ silu(z))                                            the gate before it, and a gain for every channel

Source: the norm is Zhang and Sennrich's, arXiv:1910.07467; over the channels of a head, with a gate, as in
flash-linear-attention; with the gate before it as in Dao and Gu's program of Mamba-2. Nothing differs.
"""

from typing import Literal, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate, rootnorm

Gate: TypeAlias = Literal["none", "silu", "sigmoid", "silu first"]


@final
class HeadNorm(nn.RMSNorm):
    """A norm over the `width` channels of each of `heads` heads."""

    def __init__(self, heads: int, width: int, gate: Gate = "none", eps: float = 1e-5) -> None:
        super().__init__((heads, width) if gate == "silu first" else width, eps=eps)
        self.heads, self.width, self.gate = heads, width, gate

    @override
    def forward(self, y: Float[Tensor, "B H T V"], z: Float[Tensor, "B T D"] | None = None) -> Float[Tensor, "B T D"]:
        """What the heads gave, normed and gated by z, next to each other: D = H V."""
        heads = y.transpose(1, 2)
        if z is None:
            return super().forward(heads).flatten(2)
        if self.gate == "silu first":
            gated = heads * silu(z).view_as(heads)
            return (rms_norm(gated, (self.width,), eps=self.eps) * self.weight).flatten(2)
        return super().forward(heads).flatten(2) * (silu(z) if self.gate == "silu" else torch.sigmoid(z))

    def price(self, span: Span) -> Cost:
        """The operations and the critical path for these tokens of one row."""
        normed = rootnorm(span.rows * self.heads, self.width)
        return normed if self.gate == "none" else gate(span.rows * self.heads * self.width) + normed
