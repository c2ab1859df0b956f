"""The position-wise feed-forward network.

    ffn(x) = ReLU(x W_1 + b_1) W_2 + b_2

Source: Vaswani et al., arXiv:1706.03762, Eq. 2; the Extractor paper's Eq. 19. Nothing differs.
"""

from collections.abc import Iterable
from typing import final

import torch
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.mixer import Traits
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State
from seqloom.models.channel import Channel
from seqloom.ops.projection import Linear


@final
class FFN(Channel):
    """Two linear layers with biases and a ReLU between, `width` wide inside; each token for itself. No state."""

    traits = Traits(causal="always", streams=True, state="none")

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.dim, self.width = dim, width
        self.w_1, self.w_2 = Linear(dim, width), Linear(width, dim)

    @override
    def read(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        y = self.w_2(torch.relu(self.w_1(x)))
        return y, {}

    @override
    def advance(self, x: Token, state: State, reuse: bool) -> tuple[Token, Entries]:
        return self.read(x)  # a token needs no axis of time

    @override
    def chain(self, span: Span) -> Iterable[Cost | nn.Module]:
        return self.w_1, Cost(other=span.rows * self.width), self.w_2
