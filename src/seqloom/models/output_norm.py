"""Layers that norm what a sublayer gives before it joins the stream (`norm_place` outputs, both, or by_mixer).

    outputs:  h = x + dropout(norm_1(mixer(x))),                 y = h + dropout(norm_2(channel(h)))
    both:     h = x + dropout(norm_3(mixer(norm_1(x)))),         y = h + dropout(norm_4(channel(norm_2(h))))

Source: outputs: 2 OLMo 2 Furious, arXiv:2501.00656, "reordered norm"; both: Gemma 2, arXiv:2408.00118, section 2.
Nothing differs.
"""

from typing import final

from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, Span
from seqloom.core.mixer import Mixer
from seqloom.core.parts import part_price
from seqloom.models.block import Block
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.models.norm import NewNorm
from seqloom.models.verbs import LayerCall


@final
class OutputNormBlock(Block):
    """Each sublayer reads the stream, and the norm of its output is added to the stream."""

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        (norm, mixer), *after = self.parts
        x = x + self.dropout(norm(call(0, mixer, x)))
        if not after:
            return x
        ((norm, channel),) = after
        return x + self.dropout(norm(call(1, channel, x)))

    @override
    def reads(self, number: int, x: Tensor) -> Tensor:
        return x

    @property
    @override
    def key_norm(self) -> nn.Module | None:
        """None: what the feed-forward network reads has no norm."""
        return None


@final
class BothNormsBlock(Block):
    """Each sublayer reads the norm of the stream, and another norm of its output is added to the stream."""

    def __init__(self, mixer: Mixer, kind: str, channel: FFNSublayer | None, dropout: float, norm: NewNorm) -> None:
        super().__init__(mixer, kind, channel, dropout, norm)
        self.norm_3 = norm(mixer.dim)
        if channel is not None:
            self.norm_4 = norm(mixer.dim)

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        (norm, mixer), *after = self.parts
        x = x + self.dropout(self.norm_3(call(0, mixer, norm(x))))
        if not after:
            return x
        ((norm, channel),) = after
        return x + self.dropout(self.norm_4(call(1, channel, norm(x))))

    @override
    def sublayer_costs(self, T: int, per: Per) -> list[Cost]:
        outer = [self.norm_3] if self.ffn_sublayer is None else [self.norm_3, self.norm_4]
        inner_costs = super().sublayer_costs(T, per)
        return [cost + part_price(norm, Span(T, per)) for cost, norm in zip(inner_costs, outer, strict=True)]
