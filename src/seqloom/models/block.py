"""One layer of the Transformer: a mixer and a feed-forward network, each with a norm and a residual.

    h = x + dropout(mixer(norm_1(x))),       y = h + dropout(channel(norm_2(h)))       channel: the feed-forward network

Other arrangements are files of their own: `post_norm`, `parallel`, `gated`, `reversible`. Another `FFNSublayer` may
take the place of the feed-forward network, and may have a state, as RWKV's channel mixing does. Without a channel y =
h, as in Mamba.

Source: the Extractor paper's Eq. 9, 18 and 20 (pre-layer normalization, Xiong et al., arXiv:2002.04745).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, final

from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, Span
from seqloom.core.extras import without_prefix
from seqloom.core.mixer import Mixer
from seqloom.core.parts import part_price
from seqloom.core.state import LayerState
from seqloom.models.dropout import Dropout
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.models.norm import NewNorm
from seqloom.models.verbs import LayerCall


class Block(nn.Module, ABC):
    """A layer around any mixer. Its state is the tuple of those of its sublayers.

    The parameters of the second sublayer are named after its `kind`, such as `ffn.w_1.weight`.
    """

    def __init__(self, mixer: Mixer, kind: str, channel: FFNSublayer | None, dropout: float, norm: NewNorm) -> None:
        super().__init__()
        self.norm_1 = norm(mixer.dim)
        self.mixer = mixer
        self.kind = kind
        if channel is not None:
            self.norm_2 = norm(mixer.dim)
            self.add_module(kind, channel)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        """The layer's output, given the stream x (B, T, D), or (B, D) of one token; undefined at dropped positions."""

    def reads(self, number: int, x: Tensor) -> Tensor:
        """What the first (0) or the second (1) sublayer would read of the stream x."""
        z: Tensor = self.parts[number][0](x)
        return z

    @property
    def ffn_sublayer(self) -> FFNSublayer | None:
        """The second sublayer, if there is one."""
        channel: FFNSublayer | None = self._modules.get(self.kind)  # type: ignore[assignment]  # it was added under this name
        return channel

    @property
    def parts(self) -> tuple[tuple[nn.Module, Mixer], ...]:
        """The norm and the sublayer, of the mixer and of the channel sublayer where there is one."""
        modules: dict[str, Any] = self._modules  # an attribute of a module takes as long as one token's product
        mixer = modules["norm_1"], modules["mixer"]
        return (mixer, (modules["norm_2"], modules[self.kind])) if self.kind in modules else (mixer,)

    @property
    def sublayers(self) -> tuple[Mixer, ...]:
        """The mixer, and the channel sublayer where there is one: both have a mixer's verbs."""
        return tuple(sublayer for _, sublayer in self.parts)

    @property
    def key_norm(self) -> nn.Module | None:
        """The norm of what the feed-forward network reads, if the layer has one: see `seqloom.retrieval.keys`."""
        return None if self.ffn_sublayer is None else self.norm_2

    def reset(self, std: float) -> None:
        """Initializes the mixer, and parameters of the channel that have laws of their own.

        The channel's linear layers are not drawn again, so that a seed's weights stay.
        """
        self.mixer.reset(std)
        if self.ffn_sublayer is not None:
            self.ffn_sublayer.init()

    @property
    def loss_weights(self) -> dict[str, float]:
        """See `Mixer.loss_weights`."""
        channel_weights = {} if self.ffn_sublayer is None else self.ffn_sublayer.loss_weights
        return {**self.mixer.loss_weights, **{f"channel.{name}": weight for name, weight in channel_weights.items()}}

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """See `Mixer.after_update`."""
        self.mixer.after_update(step, statistics)
        if self.ffn_sublayer is not None:
            self.ffn_sublayer.after_update(step, without_prefix(statistics, "channel"))

    def start(self, batch: int, *, capacity: int | None = None) -> LayerState:
        """The states of its sublayers before the first token, see `Mixer.start`."""
        return tuple(sublayer.start(batch, capacity=capacity) for sublayer in self.sublayers)

    def reserve(self, state: LayerState, tokens: int) -> LayerState:
        """See `Mixer.reserve`."""
        return tuple(sublayer.reserve(part, tokens) for sublayer, part in zip(self.sublayers, state, strict=True))

    def trim(self, state: LayerState) -> LayerState:
        """See `Mixer.trim`."""
        return tuple(sublayer.trim(part) for sublayer, part in zip(self.sublayers, state, strict=True))

    def crop(self, state: LayerState, tokens: int) -> LayerState:
        """See `Mixer.crop`."""
        return tuple(sublayer.crop(part, tokens) for sublayer, part in zip(self.sublayers, state, strict=True))

    def cost(self, T: int, per: Per) -> Cost:
        """The price of T tokens, or of the token at position T: each sublayer with its norm, then what joins it."""
        span = Span(T, per)
        joins = self.join_costs(span)
        return sum((part + join for part, join in zip(self.sublayer_costs(T, per), joins, strict=True)), Cost())

    def sublayer_costs(self, T: int, per: Per) -> list[Cost]:
        """The price of each sublayer with its norm."""
        return [part_price(norm, Span(T, per)) + sublayer.cost(T, per) for norm, sublayer in self.parts]

    def join_costs(self, span: Span) -> list[Cost]:
        """The price of what joins each sublayer's output and the stream: a sum."""
        return [Cost(add=span.rows * self.mixer.dim, path=("addition",)) for _ in self.sublayers]


@final
class PreNormBlock(Block):
    """Each sublayer reads the norm of the stream, and its output is added to the stream."""

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        (norm, mixer), *after = self.parts
        x = x + self.dropout(call(0, mixer, norm(x)))
        if not after:
            return x
        ((norm, channel),) = after
        return x + self.dropout(call(1, channel, norm(x)))
