"""A layer with its norms after the residual sums, as in the first Transformer and in BERT (`norm_place` after).

    h = norm_1(x + dropout(mixer(x))),       y = norm_2(h + dropout(channel(h)))

Source: Vaswani et al., arXiv:1706.03762, section 3.1.
"""

from typing import final

from torch import Tensor, nn
from typing_extensions import override

from seqloom.models.block import Block
from seqloom.models.verbs import LayerCall


@final
class PostNormBlock(Block):
    """The output of each sublayer is added to the stream, whose norm the next one reads."""

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        (norm, mixer), *after = self.parts
        x = norm(x + self.dropout(call(0, mixer, x)))
        if not after:
            return x
        ((norm, channel),) = after
        y: Tensor = norm(x + self.dropout(call(1, channel, x)))
        return y

    @override
    def reads(self, number: int, x: Tensor) -> Tensor:
        return x

    @property
    @override
    def key_norm(self) -> nn.Module:
        return self.norm_1
