"""What follows self-mixing in a layer of a decoder that reads a source: cross-attention and a feed-forward network.

    h = x + dropout(cross(norm_1(x), source)),     y = h + dropout(channel(norm_2(h)))
    h = norm_1(x + dropout(cross(x, source))),     y = norm_2(h + dropout(channel(h)))      `norm_place` after

channel: the feed-forward network, or in a Universal Transformer two separable convolutions, which remember tokens.

Source: Vaswani et al., arXiv:1706.03762, section 3.1, whose norms are after; before: Xiong et al., arXiv:2002.04745.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import final

from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, Span
from seqloom.core.mixer import Mixer
from seqloom.core.parts import part_price
from seqloom.core.shapes import Keep, Stream
from seqloom.core.state import LayerState, State
from seqloom.models.cross_attention import CrossAttention
from seqloom.models.dropout import Dropout
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.models.loop import Layer
from seqloom.models.norm import NewNorm
from seqloom.models.verbs import LayerCall


class SourceBlock(nn.Module, ABC):
    """The second and the third sublayer of a layer; the first, with its norm, is a `Block` of its own."""

    def __init__(self, cross: CrossAttention, kind: str, channel: FFNSublayer, dropout: float, norm: NewNorm) -> None:
        super().__init__()
        self.norm_1 = norm(channel.dim)
        self.cross = cross
        self.norm_2 = norm(channel.dim)
        self.kind = kind
        self.add_module(kind, channel)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def forward(self, x: Tensor, source: State, call: LayerCall) -> Tensor:
        """The stream after both sublayers, given x (B, T, D), or (B, D) of one token.

        `source` is what `start` made of the source; `call` is that of the whole layer.
        """

    def attend(self, z: Tensor, source: State) -> Tensor:
        """What cross-attention gives of z (B, T, D), or (B, D) of one token."""
        if z.ndim == 2:
            return self.attend(z[:, None], source)[:, 0]
        y: Tensor = self.cross(z, source)
        return y

    def feed(self, z: Tensor, call: LayerCall) -> Tensor:
        """What the third sublayer gives of z (B, T, D), or (B, D) of one token; without a memory, it has no state."""
        if self.ffn_sublayer.state_spec:
            return call(1, self.ffn_sublayer, z)
        if z.ndim == 2:
            return self.feed(z[:, None], call)[:, 0]
        y: Tensor = self.ffn_sublayer(z)
        return y

    @property
    def ffn_sublayer(self) -> FFNSublayer:
        """The third sublayer, whose parameters are named after its kind."""
        channel: FFNSublayer = getattr(self, self.kind)
        return channel

    def start(self, source: Stream, keep: Keep | None = None) -> State:
        """What the layer keeps of the encoder's stream (B, S, D), see `CrossAttention.start`."""
        return self.cross.start(source, keep)

    def begin(self, batch: int) -> LayerState:
        """What the third sublayer remembers before the first token; nothing where it has no memory."""
        return (self.ffn_sublayer.start(batch),) if self.ffn_sublayer.state_spec else ()

    def trim(self, memory: LayerState) -> LayerState:
        """See `Mixer.trim`."""
        return tuple(self.ffn_sublayer.trim(state) for state in memory)

    def cost(self, T: int, per: Per, projected: bool = False) -> Cost:
        """The price for a source of T tokens, and a target of T tokens or its token at position T alone.

        With `projected` it is that of a further step with the same weights, for which the source is projected already.
        """
        span = Span(T, per)
        residual = Cost(add=span.rows * self.ffn_sublayer.dim, path=("addition",))
        norms = part_price(self.norm_1, span) + part_price(self.norm_2, span)
        total = norms + self.cross.cost(T, span, projected) + residual + self.ffn_sublayer.cost(T, per) + residual
        return replace(total, params=0) if projected else total


@final
class PreNormSourceBlock(SourceBlock):
    """x + dropout(sublayer(norm(x))), for each sublayer."""

    @override
    def forward(self, x: Tensor, source: State, call: LayerCall) -> Tensor:
        h = x + self.dropout(self.attend(self.norm_1(x), source))
        return h + self.dropout(self.feed(self.norm_2(h), call))


@final
class PostNormSourceBlock(SourceBlock):
    """norm(x + dropout(sublayer(x))), for each sublayer."""

    @override
    def forward(self, x: Tensor, source: State, call: LayerCall) -> Tensor:
        h = self.norm_1(x + self.dropout(self.attend(x, source)))
        y: Tensor = self.norm_2(h + self.dropout(self.feed(h, call)))
        return y


@final
class WithSource:
    """A layer of a decoder that reads a source: the self-mixer's block, then what follows it."""

    def __init__(self, layer: Layer, after: SourceBlock, source: State) -> None:
        self.layer = layer
        self.after = after
        self.source = source

    def __call__(self, x: Tensor, call: LayerCall) -> Tensor:
        """The stream after the whole layer."""
        y: Tensor = self.after(self.layer(x, call), self.source, call)
        return y

    @property
    def sublayers(self) -> tuple[Mixer, ...]:
        """See `Block.sublayers`."""
        return self.layer.sublayers

    def reads(self, number: int, x: Tensor) -> Tensor:
        """See `Block.reads`."""
        return self.layer.reads(number, x)
