"""The position-wise feed-forward network.

    ffn(x) = ReLU(x W_1 + b_1) W_2 + b_2

Source: Vaswani et al., arXiv:1706.03762, Eq. 2; the Extractor paper's Eq. 19. Nothing differs.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn


@final
class FFN(nn.Module):
    """Two linear layers with biases and a ReLU between, `width` wide inside."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(dim, width), nn.Linear(width, dim)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Each token for itself."""
        y: Tensor = self.w_2(torch.relu(self.w_1(x)))
        return y
