"""What follows self-mixing in a layer of a decoder that reads a source: cross-attention and a feed-forward network.

    h = x + dropout(cross(norm_1(x), source)),     y = h + dropout(ffn(norm_2(h)))
    h = norm_1(x + dropout(cross(x, source))),     y = norm_2(h + dropout(ffn(h)))      `norm_place` after

Source: Vaswani et al., arXiv:1706.03762, section 3.1, whose norms are after; before: Xiong et al., arXiv:2002.04745.
"""

from typing import Literal, final

from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, Span
from seqloom.core.parts import part_price
from seqloom.core.shapes import Keep, Stream
from seqloom.core.state import State
from seqloom.models.cross_attention import CrossAttention
from seqloom.models.dropout import Dropout
from seqloom.models.ffn import FFN
from seqloom.models.norm import Norm, normalisation


@final
class SourceBlock(nn.Module):
    """The second and the third sublayer of a layer; the first, with its norm, is a `Block` of its own."""

    def __init__(
        self, cross: CrossAttention, ffn: FFN, dropout: float, norm: Norm, norm_place: Literal["before", "after"]
    ) -> None:
        super().__init__()
        self.norm_before = norm_place == "before"
        self.norm_1, self.cross = normalisation(norm, ffn.dim), cross
        self.norm_2, self.ffn = normalisation(norm, ffn.dim), ffn
        self.dropout = Dropout(dropout)

    @override
    def forward(self, x: Stream, source: State) -> Stream:
        """The stream x (B, T, D) after both sublayers, given what `start` made of the source."""
        h = self._sum(self.norm_1, x, self.cross(self._input(self.norm_1, x), source))
        return self._sum(self.norm_2, h, self.ffn(self._input(self.norm_2, h)))

    def start(self, source: Stream, keep: Keep | None = None) -> State:
        """What the layer keeps of the encoder's stream (B, S, D), see `CrossAttention.start`."""
        return self.cross.start(source, keep)

    def cost(self, T: int, per: Per) -> Cost:
        """The price for a source of T tokens, of a target as long or of its token at position T alone."""
        span = Span(T, per)
        residual = Cost(add=span.rows * self.ffn.dim, path=("addition",))
        norms = part_price(self.norm_1, span) + part_price(self.norm_2, span)
        return norms + self.cross.cost(T, span) + residual + self.ffn.cost(T, per) + residual

    def _input(self, norm: nn.Module, x: Tensor) -> Tensor:
        z: Tensor = norm(x) if self.norm_before else x
        return z

    def _sum(self, norm: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        h = x + self.dropout(y)
        return h if self.norm_before else norm(h)
