"""RWKV-7's channel mixing: a feed-forward network that also sees the token before.

    k = (x_t + (x_{t-1} - x_t) ∘ μ) W_k                              x_0 = 0; no biases
    y = max(k, 0)² W_v

Initially, with l = `layer`, μ of channel c of D is 1 - (c/D)^((1 - l/depth)^4), and W_k is orthogonal.

Source: Peng et al., RWKV-7, arXiv:2503.14456, section 4.2; initial values from the authors' `train_temp`. What differs:
their W_v is initially 0, ours is drawn as the model's other matrices.
"""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.shapes import Stream
from seqloom.layers.linear import Linear
from seqloom.models.channel_mix import ShiftedFFN


@final
class ChannelMix7(ShiftedFFN):
    """Channel mixing over `dim` channels, `width` wide inside (RWKV-7: 4 dim). State: the last token (B, D)."""

    def __init__(self, dim: int, width: int, layer: int = 0, depth: int = 1) -> None:
        super().__init__(dim, width, layer, depth)
        self.w_k, self.w_v = Linear(dim, width, bias=False), Linear(width, dim, bias=False)
        self.mu = nn.Parameter(torch.empty(dim))
        self.init()

    @override
    @torch.no_grad()
    def init(self) -> None:
        share = torch.arange(self.dim, device=self.device) / self.dim
        self.mu.copy_(1 - share ** ((1 - self.layer / self.depth) ** 4))
        nn.init.orthogonal_(self.w_k.weight)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        # Without weight decay: 0 is not neutral for μ.
        return [{"params": [self.w_k.weight, self.w_v.weight]}, {"params": [self.mu], "weight_decay": 0.0}]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n = span.rows * self.dim
        squares = span.rows * self.width
        shift = Cost(mul=n, add=2 * n, path=("addition", "multiplication", "addition"))
        squared = Cost(mul=squares, other=squares, path=("multiplication",))
        return shift, self.w_k, squared, self.w_v

    @override
    def mix_channels(self, x: Stream, earlier: Stream) -> Stream:
        k = torch.relu(self.w_k(torch.addcmul(x, earlier - x, self.mu)))
        y: Tensor = self.w_v(k * k)
        return y
