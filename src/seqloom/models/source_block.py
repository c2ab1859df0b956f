"""What follows self-mixing in a layer of a decoder that reads a source: cross-attention and a feed-forward network.

    h = x + dropout(cross(norm_1(x), source)),     y = h + dropout(channel(norm_2(h)))
    h = norm_1(x + dropout(cross(x, source))),     y = norm_2(h + dropout(channel(h)))      `norm_place` after

channel: the feed-forward network, or in a Universal Transformer two separable convolutions, which remember tokens.

Source: Vaswani et al., arXiv:1706.03762, section 3.1, whose norms are after; before: Xiong et al., arXiv:2002.04745.
"""

from dataclasses import replace
from typing import Literal, final

from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, Span
from seqloom.core.parts import part_price
from seqloom.core.shapes import Keep, Stream, Token
from seqloom.core.state import LayerState, State
from seqloom.models.channel import Channel
from seqloom.models.cross_attention import CrossAttention
from seqloom.models.dropout import Dropout
from seqloom.models.norm import Norm, build_norm


@final
class SourceBlock(nn.Module):
    """The second and the third sublayer of a layer; the first, with its norm, is a `Block` of its own."""

    def __init__(
        self,
        cross: CrossAttention,
        kind: str,
        channel: Channel,
        dropout: float,
        norm: Norm,
        norm_place: Literal["before", "after"],
    ) -> None:
        super().__init__()
        self.norm_before = norm_place == "before"
        self.norm_1 = build_norm(norm, channel.dim)
        self.cross = cross
        self.norm_2 = build_norm(norm, channel.dim)
        self.kind = kind
        self.add_module(kind, channel)
        self.dropout = Dropout(dropout)

    @property
    def channel(self) -> Channel:
        """The third sublayer, whose parameters are named after its kind."""
        channel: Channel = getattr(self, self.kind)
        return channel

    @override
    def forward(self, x: Stream, source: State, keep: Keep | None = None) -> Stream:
        """The stream x (B, T, D) after both sublayers, given what `start` made of the source."""
        h = self._sum(self.norm_1, x, self.cross(self._input(self.norm_1, x), source))
        channel = self.channel
        return self._sum(self.norm_2, h, channel(self._input(self.norm_2, h), keep if channel.memory else None))

    def start(self, source: Stream, keep: Keep | None = None) -> State:
        """What the layer keeps of the encoder's stream (B, S, D), see `CrossAttention.start`."""
        return self.cross.start(source, keep)

    def begin(self, batch: int) -> LayerState:
        """What the third sublayer remembers before the first token; nothing where it has no memory."""
        return (self.channel.start(batch),) if self.channel.memory else ()

    def extend(self, x: Stream, source: State, memory: LayerState, keep: Keep | None) -> tuple[Stream, LayerState]:
        """`forward` of a piece, given the memory that `begin` or an earlier piece returned; and the memory after it."""
        if not memory:
            return self(x, source, keep), ()
        h = self._sum(self.norm_1, x, self.cross(self._input(self.norm_1, x), source))
        y, new_state = self.channel.extend(self._input(self.norm_2, h), memory[0], keep)
        return self._sum(self.norm_2, h, y), (new_state,)

    def step(self, x: Token, source: State, memory: LayerState, reuse: bool) -> tuple[Token, LayerState]:
        """`extend` by one token; with `reuse` the given memory may be overwritten."""
        if not memory:
            y: Tensor = self(x[:, None], source)
            return y[:, 0], ()
        attended = self.cross(self._input(self.norm_1, x)[:, None], source)[:, 0]
        h = self._sum(self.norm_1, x, attended)
        y, new_state = self.channel.step(self._input(self.norm_2, h), memory[0], reuse=reuse)
        return self._sum(self.norm_2, h, y), (new_state,)

    def trim(self, memory: LayerState) -> LayerState:
        """See `Mixer.trim`."""
        return tuple(self.channel.trim(state) for state in memory)

    def cost(self, T: int, per: Per, projected: bool = False) -> Cost:
        """The price for a source of T tokens, and a target of T tokens or its token at position T alone.

        With `projected` it is that of a further step with the same weights, for which the source is projected already.
        """
        span = Span(T, per)
        residual = Cost(add=span.rows * self.channel.dim, path=("addition",))
        norms = part_price(self.norm_1, span) + part_price(self.norm_2, span)
        total = norms + self.cross.cost(T, span, projected) + residual + self.channel.cost(T, per) + residual
        return replace(total, params=0) if projected else total

    def _input(self, norm: nn.Module, x: Tensor) -> Tensor:
        """What a sublayer reads: x, or its norm where norms come before sublayers."""
        z: Tensor = norm(x) if self.norm_before else x
        return z

    def _sum(self, norm: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The stream after a sublayer, given it before, x, and the sublayer's output y."""
        h = x + self.dropout(y)
        return h if self.norm_before else norm(h)
