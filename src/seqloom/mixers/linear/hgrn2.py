"""HGRN2: gated linear attention whose keys are 1 minus its forget gates, so that the state stays bounded.

    q = silu(x W_q),   v = x W_i                        H heads of width K = D/H; no biases
    f = β_l + (1 - β_l) σ(x W_f),   k = 1 - f            per channel of the keys
    S_t = diag(f_t) S_{t-1} + k_tᵀ v_t,   y_t = q_t S_t / √K                per head
    out = norm(y) W_o                                   norm(y) = y / √(mean of y² + 1e-5) ∘ gain, over all channels
    β_l = Σ_{0<j≤l} softmax_j(table)                    of layer l, per channel; 0 in the first layer

All layers share the table (layers, D), which is 0 before training.

Source: Qin et al., HGRN2, arXiv:2404.07904, section 3, and flash-linear-attention's program of it, which this computes.
√K is from the program; it changes nothing but the effect of 1e-5 in the norm. The paper's β is cumulated as in HGRN,
arXiv:2311.04823; its norm is of mean and variance in some of the authors' programs.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, silu
from typing_extensions import override

from seqloom.core.cost import Cost, Span, sigmoid, softmax
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.fused.rms_norm import RMSNorm
from seqloom.ops.linear_decay import OP, decay
from seqloom.ops.linear_decay.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")
EPSILON = 1e-5
"""of the norm"""


@final
class LowerBounds(nn.Module):
    """The table (depth, D) from which the lower bounds of the forget gates of all layers are computed."""

    def __init__(self, depth: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(depth, dim))

    def forward(self, layer: int, times: int) -> Tensor:
        """β of a layer as `times` equal rows (times, D), in float32 or better."""
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))
        sums = table.expand(times, -1, -1).softmax(1).cumsum(1)
        return sums[:, layer] - sums[:, 0]

    def price(self, span: Span) -> Cost:
        """The operations for the bounds of one layer, which are counted once per token, as in a step."""
        L, D = self.table.shape
        return span.rows * (Cost(add=(L - 1) * D + D) + softmax(D, L))


@final
class HGRN2(PackedMixer):
    """HGRN2 over `dim` channels. State: the sum S (B, H, K, K)."""

    traits = TRAITS

    def __init__(self, layer: Layer, heads: int) -> None:
        super().__init__()
        D = layer.dim
        if D % heads:
            raise ValueError(f"dim {D} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.K, self.layer = D, heads, D // heads, layer.number
        self.w_q, self.w_f, self.w_i, self.w_o = (Linear(D, D, bias=False) for _ in range(4))
        self.norm = RMSNorm(D, eps=EPSILON)

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"sum": StateEntry((self.heads, self.K, self.K), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        g, k = self._gates(x)
        inputs = (silu(self.w_q(x)) / self.K**0.5, k, self.w_i(x), g)
        q, k, v, g = (tensor.unflatten(-1, (self.heads, -1)).transpose(1, 2) for tensor in inputs)  # (B, H, T, K)
        y, new_state = decay(q, k, v, g, state["sum"] if state else None, lengths=lengths)
        return self.w_o(self.norm(y.transpose(1, 2).flatten(2))), {"sum": new_state}

    @override
    def plots(self, x: Stream) -> list[View]:
        meaning = "the share of its state that a channel keeps when it reads a token"
        return [View("forget gate", meaning, ("token", "channel"), self._gates(x[0])[0].exp())]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n = span.rows * self.dim
        gates = Cost(add=2 * n, exp=2 * n, other=2 * n, path=("exponentiation", "addition", "other", "exponentiation"))
        bounds = self.shared.price(span).parallel() if isinstance(self.shared, LowerBounds) and self.layer else Cost()
        bounded = Cost(add=5 * n, exp=n, other=6 * n, path=("addition", "other")) if self.layer else Cost()
        scaled = (sigmoid(n) + Cost(div=n)).parallel()
        summed = price(span.rows, self.heads, self.K, self.K, "channel")
        return bounds, scaled, self.w_f, gates, bounded, summed, self.norm, self.w_o

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """log f and k = 1 - f (…, T, D), in float32 or better."""
        logits = self.w_f(x)
        g = logsigmoid(logits.to(torch.promote_types(logits.dtype, torch.float32)))
        if self.layer:
            assert isinstance(self.shared, LowerBounds)
            # the reference computes the bounds for each token, as they are priced
            times = x.shape[-2] if OP.choose(x[None], True) == "reference" else 1
            bound = self.shared(self.layer, times).clamp(torch.finfo(g.dtype).tiny, 1 - torch.finfo(g.dtype).eps)
            g = torch.logaddexp(bound.log(), torch.log1p(-bound) + g)
        return g, -torch.expm1(g)


@register
class HGRN2Config(MixerConfig):
    """HGRN2. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["hgrn2"] = "hgrn2"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1})

    @override
    def distinct(self, depth: int) -> int:
        return min(2, depth)  # the first layer has no lower bound

    @override
    def shared_module(self, layer: Layer) -> nn.Module | None:
        """The table; None if there is only the first layer, which does not use it."""
        return LowerBounds(layer.depth, layer.dim) if layer.depth > 1 else None

    @override
    def make(self, layer: Layer) -> HGRN2:
        return HGRN2(layer, self.heads)
