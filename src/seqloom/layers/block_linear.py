"""A linear layer whose matrix is block-diagonal: each block of channels is multiplied by a matrix of its own.

    y = [x_1 W_1 … x_H W_H] + b             x in H blocks of N channels, W_h (N, M)

Source: as in De et al., Griffin, arXiv:2402.19427, section 2.4, whose gates are these. Nothing differs.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from seqloom.core.cost import Cost, Span, linear


@final
class BlockLinear(nn.Module):
    """`blocks` matrices (N, M) for `inputs` = H N channels, drawn from N(0, 1/N); biases begin at 0."""

    def __init__(self, inputs: int, outputs: int, blocks: int, bias: bool = True) -> None:
        super().__init__()
        if inputs % blocks or outputs % blocks:
            raise ValueError(f"{inputs} to {outputs} channels do not divide into {blocks} blocks")
        self.weight = nn.Parameter(torch.empty(blocks, inputs // blocks, outputs // blocks))
        self.bias = nn.Parameter(torch.empty(blocks, outputs // blocks)) if bias else None
        self.init()

    def init(self) -> None:
        """Draws the matrices; biases are 0."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    @property
    def weight_and_bias(self) -> tuple[Tensor, Tensor]:
        """W and b, of a layer that has a bias."""
        assert self.bias is not None
        return self.weight, self.bias

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        """(…, H N) → (…, H M)."""
        H, N, _ = self.weight.shape
        blocks = x.reshape(-1, H, N).transpose(0, 1)
        if self.bias is None:
            y = torch.bmm(blocks, self.weight)
        else:
            y = torch.baddbmm(self.bias[:, None], blocks, self.weight)
        return y.transpose(0, 1).reshape(*x.shape[:-1], -1)

    def price(self, span: Span) -> Cost:
        """The operations and the critical path for the tokens of `span` in one row."""
        H, N, M = self.weight.shape
        return linear(span.rows * H, N, M, self.bias is not None)
