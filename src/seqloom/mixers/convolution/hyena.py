"""Hyena: gates and long convolutions in turn, with filters that a small network computes from the lag.

    [v, x^1, …, x^N]_t = Σ_{k<W} short_k ∘ (u W_in)_{t-k}                            inputs before the first are 0
    z^1 = v,    z^{n+1}_t = x^n_t ∘ (Σ_{k<L} h^n_k ∘ z^n_{t-k} + bias^n ∘ z^n_t),    y = z^{N+1} W_out

N = `order`, L = `context`; the filters h are those of `seqloom.ops.fixed.implicit_filter`, 0 beyond the context, so
that texts can have any length. W_in gives the streams in the order v, x^1, …, x^N, the network's last matrix h^1 before
h^2.

Source: Poli et al., Hyena Hierarchy, arXiv:2302.10866, Definition 3.1 and Algorithms 1-3; the bias is from the authors'
code. `order` is the paper's: N gates and N long convolutions. The authors' code at order N has a gate before the first
convolution in place of one (safari, issues 9 and 30): N gates, N-1 convolutions, so its order 2 convolves as often as 1
here. Its projections and short filters have biases; ours, like the equations, have none. The state is ours.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, cast, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.ops.fixed.implicit_filter import Shape, exact, filters, price
from seqloom.ops.fixed.implicit_filter.kept import Kept
from seqloom.ops.lag_sum import taps

TRAITS = Traits(causal="always", streams=True, state="window")


@final
class Hyena(CachingMixer):
    """Hyena of `order` gates over `dim` channels. State: the last W-1 projections, and the last L-1 of each z^n."""

    traits = TRAITS
    roles: ClassVar = dict.fromkeys(("filter_in", "filter_hidden", "filter_out"), "other")  # their outputs are taps

    def __init__(self, dim: int, order: int, short: int, width: int, depth: int, omega: float, shape: Shape) -> None:
        super().__init__()
        self.dim, self.order, self.omega, self.shape, self.kept = dim, order, omega, shape, Kept()
        self.in_proj = Linear(dim, (order + 1) * dim, bias=False)
        self.short = nn.Parameter(torch.empty(short, (order + 1) * dim))
        self.filter_in = Linear(2 * shape.features + 1, width)
        self.filter_hidden = nn.ModuleList(Linear(width, width) for _ in range(depth - 2))
        self.filter_out = Linear(width, order * dim, bias=False)
        self.frequency = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(order, dim))
        self.out_proj = Linear(dim, dim, bias=False)
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        for layer in self._network:
            layer.reset_parameters()
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        others = [self.in_proj.weight, self.short, self.out_proj.weight]  # the network of the filters is not decayed
        return [{"params": others}, {"params": self._filter_parameters, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        long = StateEntry((self.shape.context - 1, self.dim))
        short = StateEntry((len(self.short) - 1, self.short.shape[1]))
        return {"short": short, **{f"z_{n}": long for n in range(1, self.order + 1)}}

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        h = self._taps_of(state, x.shape[1])
        streams, entries = exact.carry(self.in_proj(x), self.short, state, "short", lengths, reuse)
        z, *gates = streams.chunk(self.order + 1, -1)
        for n, gate in enumerate(gates, 1):
            summed, entry = exact.carry(z, h[n - 1], state, f"z_{n}", lengths, reuse)
            z = gate * summed
            entries |= entry
        return self.out_proj(z), entries

    @override
    def plots(self, x: Stream) -> list[View]:
        meaning, axes = "the weight of a channel's own z^{} at each lag", ("lag", "channel")
        long = enumerate(self._filters(0, self.shape.context), 1)
        short = View("short taps", "the weight of v and of each gate at each lag", ("lag", "projection"), self.short)
        return [*(View(f"filter {n}", meaning.format(n), axes, h) for n, h in long), short]

    @property
    @override
    def parts(self) -> list[nn.Module]:
        return [self.in_proj, self.out_proj]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        D, N, L = self.dim, self.order, self.shape.context
        widths = [self.filter_in.in_features, *(layer.out_features for layer in self._network)]
        filter_price = price(span, L, D, N, widths)  # each tap is computed once, at the first token that it reaches
        gated = taps.price(span, D, L) + Cost(mul=span.rows * D, path=("multiplication",))
        return self.in_proj, taps.price(span, (N + 1) * D, len(self.short)), filter_price, *([gated] * N), self.out_proj

    @property
    def _network(self) -> list[nn.Linear]:
        return cast("list[nn.Linear]", [self.filter_in, *self.filter_hidden, self.filter_out])

    @property
    def _filter_parameters(self) -> list[Tensor]:
        """The parameters from which the filters are computed, bias included."""
        return [*(p for layer in self._network for p in layer.parameters()), self.frequency, self.bias]

    def _taps_of(self, state: State | None, tokens: int) -> Tensor:
        """The taps (order, lags, D) that this many tokens after the state need.

        Without gradients, taps that were computed for earlier tokens are used again.
        """
        if state is None:
            return self._filters(0, min(tokens, self.shape.context))
        return self.kept.reaching(length_of(state), tokens, self.shape.context, self._filter_parameters, self._filters)

    def _filters(self, first: int, last: int) -> Tensor:
        """The taps (order, last - first, D) of lags from `first` to before `last`."""
        layers = [(layer.weight, layer.bias) for layer in self._network]
        h = filters(self.shape, layers, self.frequency, self.dim, first, last).to(self.dtype)
        return h if first else torch.cat([h[:, :1] + self.bias[:, None], h[:, 1:]], 1)  # the bias is added at lag 0

    def _initialize(self) -> None:
        nn.init.constant_(self.frequency, self.omega)
        nn.init.normal_(self.bias)
        nn.init.uniform_(self.short, -(len(self.short) ** -0.5), len(self.short) ** -0.5)


@register
class HyenaConfig(MixerConfig):
    """Long convolutions with gates (Hyena), whose filters reach as far as the context."""

    kind: Literal["hyena"] = "hyena"
    order: int = Field(
        2,
        ge=1,
        description="number of gates and of long convolutions (the authors' code at order 2 has one convolution)",
    )
    short: int = Field(3, ge=1, description="taps of the short convolution after each projection")
    filter_dim: int = Field(64, ge=1, description="hidden width of the network that generates the filters")
    filter_depth: int = Field(4, ge=2, le=64, description="matrices of that network")
    features: int = Field(16, ge=1, description="frequencies of its positional features")
    frequency: float = Field(14.0, gt=0, description="initial value of the learned frequency ω of its sines")
    slow_decay: float = Field(
        1.5, gt=0, description="fraction of the context in which the slowest channel decays to 1/100"
    )
    fast_decay: float = Field(
        0.3, gt=0, description="fraction of the context in which the fastest channel decays to 1/100"
    )
    floor: float = Field(0.05, ge=0, description="constant added to the decay, so that taps of long lags are not 0")
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(150, "products of order + 1 streams; the filters' network is computed in float64")
    examples: ClassVar = (
        {"filter_dim": 3, "features": 1},
        {"order": 1, "short": 1, "filter_dim": 4, "filter_depth": 2, "features": 2, "floor": 0.0},
        {"order": 3, "filter_dim": 2, "filter_depth": 3, "features": 1, "frequency": 1.0},
    )

    @override
    def make(self, layer: Layer) -> Hyena:
        """Raises ValueError without a context."""
        if layer.context is None or layer.context < 1:
            raise ValueError(
                f"hyena needs a context of 1 or more, the lags that its filters reach, not {layer.context}"
            )
        shape = Shape(layer.context, self.features, self.slow_decay, self.fast_decay, self.floor)
        return Hyena(layer.dim, self.order, self.short, self.filter_dim, self.filter_depth, self.frequency, shape)
