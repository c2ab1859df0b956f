"""The output layer of a model whose embedding is its matrix too.

    logits = x Eᵀ + b                 E: the embedding of tokens, (W, D)

Source: Press and Wolf, arXiv:1608.05859; Vaswani et al., arXiv:1706.03762, section 3.4. Nothing differs.
"""

from typing import final

import torch
from torch import Tensor, nn

from seqloom.core.shapes import Logits, Stream
from seqloom.ops.projection import project


@final
class TiedHead(nn.Module):
    """Logits by the weights of an embedding, which the model holds, trains and saves once, and by a bias of its own."""

    bias: nn.Parameter | None

    def __init__(self, token: nn.Embedding, bias: bool) -> None:
        super().__init__()
        self.__dict__["token"] = token  # no submodule here: its weights would be saved a second time
        self.register_parameter("bias", nn.Parameter(torch.zeros(token.num_embeddings)) if bias else None)

    @property
    def weight(self) -> Tensor:
        """The embedding (W, D)."""
        token: nn.Embedding = self.__dict__["token"]
        return token.weight

    def forward(self, x: Stream) -> Logits:
        """Logits (B, T, W) of features (B, T, D)."""
        return project(x, self.weight, self.bias)
