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
    """norm(x + dropout(sublayer(x))), for each sublayer."""

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        for number, (norm, sublayer) in enumerate(self.parts):
            x = norm(x + self.dropout(call(number, sublayer, x)))
        return x

    @override
    def reads(self, number: int, x: Tensor) -> Tensor:
        return x

    @property
    @override
    def key_norm(self) -> nn.Module:
        return self.norm_1
