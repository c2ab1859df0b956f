"""One layer of the Transformer: a mixer and a feed-forward network, each with a norm and a residual.

    h = x + dropout(mixer(norm_1(x))),       y = h + dropout(channel(norm_2(h)))       channel: the feed-forward network
    h = norm_1(x + dropout(mixer(x))),       y = norm_2(h + dropout(channel(h)))       `norm_place` after
    h = x + dropout(mixer(norm_1(x))),       y = h + dropout(channel(norm_2(x)))       `sublayers` parallel
    y_1 = x_1 + dropout(mixer(norm_1(x_2))), y_2 = x_2 + dropout(channel(norm_2(y_1))) `sublayers` reversible
    h = g_1(x, dropout(mixer(norm_1(x)))),   y = g_2(h, dropout(channel(norm_2(h))))   `residual` a gate, see `gates`

Source: the Extractor paper's Eq. 9, 18 and 20 (pre-layer normalization, Xiong et al., arXiv:2002.04745); after: Vaswani
et al., arXiv:1706.03762, section 3.1; parallel: Black et al., GPT-NeoX-20B, arXiv:2204.06745, section 2.1, with the two
norms of its code; reversible: see `reversible`, both streams lie next to each other, (B, T, 2D). Another
`Channel` may take the place of the feed-forward network, and may have a state, as RWKV's channel mixing does. Without a
channel y = h, as in Mamba.
"""

from collections.abc import Mapping
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.extras import Extras, merged, without_prefix
from seqloom.core.mixer import Mixer
from seqloom.core.rest import in_training
from seqloom.core.shapes import Keep, Stream, Token
from seqloom.core.state import LayerState, bounded, stepped
from seqloom.mixers.handing import Handed, Handing, HandingMixer
from seqloom.models.channel import Channel
from seqloom.models.dropout import Dropout
from seqloom.models.gates import Gate, Residual, gate
from seqloom.models.norm import Norm, build_norm, norm_token


@final
class Block(nn.Module):
    """A layer around any mixer; it speaks the mixer's verbs.

    Its state is the tuple of those of its sublayers. The parameters of the second are named after its `kind`, such as
    `ffn.w_1.weight`.
    """

    def __init__(
        self,
        mixer: Mixer,
        kind: str,
        channel: Channel | None,
        dropout: float,
        norm: Norm,
        norm_place: Literal["before", "after"] = "before",
        sublayers: Literal["serial", "parallel", "reversible"] = "serial",
        residual: Residual = "add",
    ) -> None:
        super().__init__()
        self.norm_before = norm_place == "before"
        self.parallel = sublayers == "parallel"
        self.reversible = sublayers == "reversible"
        if self.reversible and isinstance(mixer, Handing):
            raise ValueError("this mixer hands over to later layers, so that none is reversible: set sublayers=serial")
        self.norm_1 = build_norm(norm, mixer.dim)
        self.mixer = mixer
        self.kind = kind
        if channel is not None:
            self.norm_2 = build_norm(norm, mixer.dim)
            self.add_module(kind, channel)
        self.dropout = Dropout(dropout)
        self.gate_1 = gate(residual, mixer.dim)
        """what joins the stream and the output of the mixer; None for their sum"""
        self.gate_2 = None if channel is None else gate(residual, mixer.dim)
        """the same of the second sublayer"""
        self.adds = norm_place == "before" and residual == "add"
        """whether a sublayer's output is added, and nothing else"""

    @property
    def channel(self) -> Channel | None:
        """The second sublayer, if there is one."""
        channel: Channel | None = getattr(self, self.kind, None)
        return channel

    @property
    def gates(self) -> list[Gate]:
        """The gates of its sublayers, in order; none where outputs are added."""
        return [gate for gate in (self.gate_1, self.gate_2) if gate is not None]

    @property
    def sublayers(self) -> tuple[Mixer, ...]:
        """The mixer, and the channel sublayer where there is one: both have a mixer's verbs."""
        return (self.mixer,) if self.channel is None else (self.mixer, self.channel)

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        """The layer's output, undefined at dropped positions. No earlier layer hands anything over to it."""
        return self.forward_with_extras(x, {}, keep)[0]

    def forward_with_extras(
        self, x: Stream, handed: Handed, keep: Keep | None = None, exited: Keep | None = None
    ) -> tuple[Stream, Handed, Extras]:
        """See `Mixer.forward_with_extras`, and what earlier and later layers hand over, see `HandingMixer`.

        The extras of the second sublayer are under `channel.`. Positions in `exited` skip the layer, as in `pass_by`:
        their output is undefined.
        """
        x, second = self._streams(x)
        z = self._input(self.norm_1, second)
        if isinstance(self.mixer, Handing):
            y, handed = self.mixer.forward_handed(z, keep, handed)
            extras = Extras()
        else:
            y, extras = self.mixer.forward_with_extras(z, keep)
        h = self._joined(0, x, y)
        if self.channel is None:
            return h, handed, extras
        if exited is not None:
            h = torch.where(exited[..., None], x, h)
        y, channel_extras = self.channel.forward_with_extras(self._input(self.norm_2, x if self.parallel else h), keep)
        return self._outputs(h, second, y), handed, merged([extras, channel_extras.under("channel")])

    def residual(self, number: int, x: Stream, keep: Keep | None) -> tuple[Stream, Extras]:
        """What the first (0) or the second (1) sublayer adds after reading x (B, T, D), and its extras."""
        norm = self.norm_2 if number else self.norm_1
        y, extras = self.sublayers[number].forward_with_extras(norm(x), keep)
        return self.dropout(y), extras.under("channel") if number else extras

    @property
    def loss_weights(self) -> dict[str, float]:
        """See `Mixer.loss_weights`."""
        channel_weights = {} if self.channel is None else self.channel.loss_weights
        return {**self.mixer.loss_weights, **{f"channel.{name}": weight for name, weight in channel_weights.items()}}

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """See `Mixer.after_update`."""
        self.mixer.after_update(step, statistics)
        if self.channel is not None:
            self.channel.after_update(step, without_prefix(statistics, "channel"))

    def start(self, batch: int, *, capacity: int | None = None) -> LayerState:
        """The states of its sublayers before the first token, see `Mixer.start`."""
        return tuple(sublayer.start(batch, capacity=capacity) for sublayer in self.sublayers)

    def extend_with_extras(
        self, x: Stream, state: LayerState, handed: Handed, keep: Keep | None = None
    ) -> tuple[Stream, LayerState, Handed, Extras]:
        """See `Mixer.extend_with_extras` and `forward_with_extras`."""
        x, second = self._streams(x)
        z = self._input(self.norm_1, second)
        if isinstance(self.mixer, HandingMixer):
            y, mixer_state, handed = self.mixer.extend_handed(z, state[0], keep, handed)
            extras = Extras()
        else:
            y, mixer_state, extras = self.mixer.extend_with_extras(z, state[0], keep)
        h = self._joined(0, x, y)
        if self.channel is None:
            return h, (mixer_state,), handed, extras
        z = self._input(self.norm_2, x if self.parallel else h)
        y, channel_state, channel_extras = self.channel.extend_with_extras(z, state[1], keep)
        return (
            self._outputs(h, second, y),
            (mixer_state, channel_state),
            handed,
            merged([extras, channel_extras.under("channel")]),
        )

    def step(
        self, x: Token, state: LayerState, handed: Handed, *, reuse: bool = False
    ) -> tuple[Token, LayerState, Handed]:
        """See `Mixer.step`, and what earlier and later layers hand over of this token."""
        modules: dict[str, Any] = self._modules  # reading a module's attribute takes as long as one token's product
        mixer, norm, before = modules["mixer"], modules["norm_1"], self.norm_before
        x, second = self._streams(x) if self.reversible else (x, x)
        z = norm_token(norm, second) if before else x
        if isinstance(mixer, HandingMixer):
            y, mixer_state, handed = mixer.step_handed(z, state[0], reuse, handed)
        else:
            y, mixer_state = mixer.step(z, state[0], reuse=reuse)
        adds = self.adds and not in_training(self)
        h = x + y if adds else self._joined(0, x, y)
        channel = modules.get(self.kind)
        if channel is None:
            return h, (mixer_state,), handed
        norm = modules["norm_2"]
        z = x if self.parallel else h
        y, channel_state = channel.step(norm_token(norm, z) if before else z, state[1], reuse=reuse)
        if self.reversible:
            return self._outputs(h, second, y), (mixer_state, channel_state), handed
        h = h + y if adds else self._joined(1, h, y)
        return h, (mixer_state, channel_state), handed

    def pass_by(self, x: Token, state: LayerState, handed: Handed, *, reuse: bool = False) -> tuple[LayerState, Handed]:
        """The states after a token x that skips the layer, so that the stream leaves the layer unchanged.

        The mixer still reads the token, because its state cannot be advanced otherwise; so does a second sublayer that
        has a state.
        """
        z = norm_token(self.norm_1, x) if self.norm_before else x
        if isinstance(self.mixer, HandingMixer):
            _, mixer_state, handed = self.mixer.step_handed(z, state[0], reuse, handed)
        else:
            _, mixer_state = self.mixer.step(z, state[0], reuse=reuse)
        channel = self.channel
        if channel is None:
            return (mixer_state,), handed
        if not channel.memory:
            return (mixer_state, stepped({}, bounded(state[1]))), handed
        _, channel_state = channel.step(norm_token(self.norm_2, x) if self.norm_before else x, state[1], reuse=reuse)
        return (mixer_state, channel_state), handed

    def trim(self, state: LayerState) -> LayerState:
        """See `Mixer.trim`."""
        return tuple(sublayer.trim(part) for sublayer, part in zip(self.sublayers, state, strict=True))

    def crop(self, state: LayerState, tokens: int) -> LayerState:
        """See `Mixer.crop`."""
        return tuple(sublayer.crop(part, tokens) for sublayer, part in zip(self.sublayers, state, strict=True))

    def _input(self, norm: nn.Module, x: Tensor) -> Tensor:
        """What a sublayer reads: x, or its norm where norms come before sublayers."""
        z: Tensor = norm(x) if self.norm_before else x
        return z

    def _streams(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The stream that the first sublayer adds to, and the one that it reads; the same unless reversible."""
        if not self.reversible:
            return x, x
        first, second = x.chunk(2, -1)
        return first, second

    def _outputs(self, h: Tensor, second: Tensor, y: Tensor) -> Tensor:
        """The layer's output, given h, the stream `second` where there are two, and the second sublayer's output y."""
        if not self.reversible:
            return self._joined(1, h, y)
        return torch.cat([h, self._joined(1, second, y)], -1)

    def _joined(self, number: int, x: Tensor, y: Tensor) -> Tensor:
        """The stream after the first (0) or the second (1) sublayer, given the stream before, x, and its output y."""
        y = self.dropout(y) if in_training(self) else y
        gate = self.gate_2 if number else self.gate_1
        if gate is not None:
            joined: Tensor = gate(x, y)
            return joined
        h = x + y
        if self.norm_before:
            return h
        normed: Tensor = self.norm_2(h) if number else self.norm_1(h)
        return normed
