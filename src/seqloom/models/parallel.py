"""A layer whose two sublayers read the same input (`sublayers` parallel).

    y = x + dropout(mixer(norm_1(x))) + dropout(channel(norm_2(x)))

Source: Black et al., GPT-NeoX-20B, arXiv:2204.06745, section 2.1, with the two norms of its code.
"""

from typing import final

from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Per, Span
from seqloom.models.block import Block
from seqloom.models.verbs import LayerCall


@final
class ParallelBlock(Block):
    """The mixer and the channel sublayer side by side."""

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        mixer, channel = self.sublayers
        h = x + self.dropout(call(0, mixer, self.norm_1(x)))
        return h + self.dropout(call(1, channel, self.norm_2(x)))

    @override
    def cost(self, T: int, per: Per) -> Cost:
        shorter, longer = sorted(self.sublayer_costs(T, per), key=lambda cost: len(cost.path))
        return sum(self.join_costs(Span(T, per)), shorter.parallel() + longer)
