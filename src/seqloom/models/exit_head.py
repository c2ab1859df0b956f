"""The output layer of one layer of a model that is not the last.

    logits = W_l norm_l(x_l) + b_l            x_l: the stream after layer l; with norms after the sublayers no norm_l

Source: Elbayad et al., Depth-Adaptive Transformer, arXiv:1910.10073, section 3, where a model has one for each layer or
shares one. What differs: the norm, which the pre-norm model has before its own output layer.
"""

from typing import Literal, final

from torch import Tensor, nn

from seqloom.core.shapes import Logits, Stream
from seqloom.models.norm import Norm, normalisation
from seqloom.ops.projection import Linear


@final
class ExitHead(nn.Module):
    """Logits of the next token by weights of the layer's own."""

    def __init__(self, dim: int, outputs: int, norm: Norm, norm_place: Literal["before", "after"], bias: bool) -> None:
        super().__init__()
        self.norm = normalisation(norm, dim) if norm_place == "before" else nn.Identity()
        self.head = Linear(dim, outputs, bias=bias)

    def forward(self, x: Stream) -> Logits:
        """Logits (B, T, W) of the stream (B, T, D) after the layer."""
        logits: Tensor = self.head(self.norm(x))
        return logits
