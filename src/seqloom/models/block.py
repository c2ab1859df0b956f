"""One layer of the Transformer: a mixer and a feed-forward network, each behind a norm and beside a residual.

    h = x + dropout(mixer(norm(x))),     y = h + dropout(channel(norm(h)))       channel: the feed-forward network

Source: the Extractor paper's Eq. 9, 18 and 20 (pre-layer normalisation, Xiong et al., arXiv:2002.04745). Where the
paper has the feed-forward network another `Channel` may stand, and remember what it has read: RWKV's channel mixing. Or
none, and y = h: Mamba.
"""

from typing import final

from torch import nn

from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Keep, Stream, Token
from seqloom.core.state import State, under, within
from seqloom.models.channel import Channel
from seqloom.models.dropout import Dropout
from seqloom.models.norm import Norm, normalisation


@final
class Block(nn.Module):
    """A layer around any mixer; it speaks the mixer's verbs.

    Its state is the mixer's and, under `channel.`, what the second half remembers; `seen` is of both. The parameters of
    the second half are named after its `kind`, such as `ffn.w_1.weight`.
    """

    def __init__(self, mixer: Mixer, kind: str, channel: Channel | None, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm_1, self.mixer, self.kind = normalisation(norm, mixer.dim), mixer, kind
        if channel is not None:
            self.norm_2 = normalisation(norm, mixer.dim)
            self.add_module(kind, channel)
        self.dropout = Dropout(dropout)

    @property
    def channel(self) -> Channel | None:
        """The second half, if there is one."""
        half: Channel | None = getattr(self, self.kind, None)
        return half

    @property
    def halves(self) -> tuple[Mixer, ...]:
        """All that has a mixer's verbs, for what is asked of each."""
        return (self.mixer,) if self.channel is None else (self.mixer, self.channel)

    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        """See `Mixer.forward`; what it writes at dropped places means nothing."""
        channel, h = self.channel, x + self.dropout(self.mixer(self.norm_1(x), keep))
        return h if channel is None else h + self.dropout(channel(self.norm_2(h), keep))

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        """See `Mixer.start`."""
        return _joined(*(half.start(batch, capacity=capacity) for half in self.halves))

    def extend(self, x: Stream, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        """See `Mixer.extend`."""
        channel = self.channel
        before, beside = (state, {}) if channel is None else _parted(state)
        y, after = self.mixer.extend(self.norm_1(x), before, keep)
        h = x + self.dropout(y)
        if channel is None:
            return h, after
        y, then = channel.extend(self.norm_2(h), beside, keep)
        return h + self.dropout(y), _joined(after, then)

    def step(self, x: Token, state: State, *, reuse: bool = False) -> tuple[Token, State]:
        """See `Mixer.step`."""
        channel = self.channel
        before, beside = (state, {}) if channel is None else _parted(state)
        y, after = self.mixer.step(self.norm_1(x), before, reuse=reuse)
        h = x + self.dropout(y)
        if channel is None:
            return h, after
        y, then = channel.step(self.norm_2(h), beside, reuse=reuse)
        return h + self.dropout(y), _joined(after, then)

    def trim(self, state: State) -> State:
        """See `Mixer.trim`."""
        return _joined(*(half.trim(part) for half, part in zip(self.halves, _parted(state), strict=False)))


def _parted(state: State) -> tuple[State, State]:
    """The states of both halves."""
    second = within(state, "channel")
    first = {name: tensor for name, tensor in state.items() if not name.startswith("channel.")}
    return first, {**second, "seen": state["seen"]}


def _joined(first: State, *second: State) -> State:
    """The state of the layer: `seen` of the second half, if there is one, is that of the first."""
    beside = {name: tensor for half in second for name, tensor in half.items() if name != "seen"}
    return first | under(beside, "channel")
