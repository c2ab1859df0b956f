"""A linear layer in int8, y = x Wᵀ + b: each row of W, and each token of x, is rounded, with one factor.

    Ŵ_o = round(W_o / s_o),  s_o = max_i |W_oi| / 127          per output o, once
    x̂ = round(x / r),        r = max_i |x_i| / 127             per token
    y_o = r s_o Σ_i x̂_i Ŵ_oi + b_o                             the sum is of int32, exact

The factor of a token depends on no other token, so that whole texts, pieces and tokens still agree and no output
depends on later tokens; torch's own dynamic layers have one factor for all tokens of a call.

Source: Dettmers et al., LLM.int8(), arXiv:2208.07339, section 2.1, "vector-wise"; without their columns in float16.
"""

from typing import Self, final

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from seqloom.core.cost import Cost, Span, linear

LARGEST = 127.0
"""the largest whole number of int8 whose negative is one too"""


@final
class Int8Linear(nn.Module):
    """A linear layer without gradients, in a quarter of the memory of float32."""

    rounded: Int8[Tensor, "O I"]

    def __init__(self, rounded: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.scale = nn.Parameter(scale, requires_grad=False)  # a parameter, whose dtype is that of the mixer around it
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.register_buffer("rounded", rounded)
        self.reads = 0
        """how often a caller took the matrix itself, which is made of int8 each time"""

    @classmethod
    def of(cls, linear: nn.Linear) -> Self:
        """The layer with the rounded weights of another one."""
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp(min=torch.finfo(weight.dtype).tiny) / LARGEST
        rounded = (weight / scale[:, None]).round().to(torch.int8)
        return cls(rounded, scale, None if linear.bias is None else linear.bias.detach())

    @property
    def in_features(self) -> int:
        """The channels that it reads."""
        return self.rounded.shape[1]

    @property
    def out_features(self) -> int:
        """The channels that it writes."""
        return self.rounded.shape[0]

    @property
    def weight(self) -> Float[Tensor, "O I"]:
        """The matrix, for mixers that multiply by a part of it."""
        self.reads += 1
        return self.rounded.to(self.scale.dtype) * self.scale[:, None]

    def price(self, span: Span) -> Cost:
        """The price of a linear layer of these sizes."""
        return linear(span.rows, self.in_features, self.out_features, self.bias is not None)

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """(…, in_features) → (…, out_features). ValueError where x needs a gradient, which int8 has not."""
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError("a model in int8 has no gradients: train it before seqloom.quantize, or use torch.no_grad")
        factor = x.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny) / LARGEST
        tokens = (x / factor).round().to(torch.int8)
        sums = torch._int_mm(tokens.flatten(0, -2), self.rounded.t()).unflatten(0, x.shape[:-1])
        y = sums.to(x.dtype) * factor * self.scale
        return y if self.bias is None else y + self.bias
