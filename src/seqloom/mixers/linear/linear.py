"""The linear Transformer: attention whose weights are products of positive features, so that the past is one matrix.

    q = φ(x W_q),  k = φ(x W_k),  v = x W_v        cut into H heads of width K = D/H; φ(a) = elu(a) + 1; no biases
    S_t = S_{t-1} + k_tᵀ v_t,   z_t = z_{t-1} + k_t
    y_t = q_t S_t / (q_t · z_t + eps),   out = concat_h(y) W_out

In the bidirectional form every query uses the sums over all tokens, S_T and z_T.

Equal to attention with the weights a_ij = q_i · k_j / (Σ_{j'≤i} q_i · k_j' + eps). z is stored as one more column of S,
of values v that are 1; the price includes these products.

Source: Katharopoulos et al., arXiv:2006.16236, Eq. 7-12 and 16-20. eps is that of the authors' code. Seed 001 prints
the feature of q_m where that of q_n belongs, and sums the denominator to N. Nothing differs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.transforms import is_transformed
from seqloom.core.view import View, of_heads
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.linear_decay import decay_with_normalizer, total
from seqloom.ops.linear_decay.reference import price
from seqloom.ops.linear_decay.weighted import parts, quotient

TRAITS = Traits(causal="always", streams=True, state="constant")


class LinearFeatures(Mixer, ABC):
    """What both forms share: projections into H heads and their features."""

    def __init__(self, dim: int, heads: int, eps: float) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.eps = dim, heads, eps
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, D, H, K = span.rows, self.dim, self.heads, self.dim // self.heads
        features = Cost(  # of q and k; relu and the bound of φ are counted in `other`
            add=2 * rows * D, exp=2 * rows * D, other=4 * rows * D, path=("exponentiation", "addition")
        )
        divided = Cost(add=rows * H, div=rows * D, path=("addition", "division"))
        return self.w_q, features, self._price_sums(rows, H, K, K + 1), divided, self.w_out

    @staticmethod
    @abstractmethod
    def _price_sums(rows: int, H: int, K: int, V: int) -> Cost:
        """The price of the sums S and z, and of their products with queries."""

    def _read(self, s: Tensor, z: Tensor) -> Stream:
        """The outputs (B, T, D), from s = q_t S_t (B, H, T, K) and z = q_t · z_t (B, H, T) of each query."""
        y = quotient(s, z + self.eps)
        return self.w_out(y.transpose(1, 2).flatten(2))

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The features of queries and keys, and the values: (B, H, T, K) each."""
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        return _feature(q), _feature(k), v


@final
class LinearAttention(LinearFeatures, PackedMixer):
    """Causal linear attention over `dim` channels. State: the sum S with its normalizer (B, H, K, K+1)."""

    traits = TRAITS
    _price_sums = staticmethod(price)

    @property
    @override
    def state_spec(self) -> StateSpec:
        K = self.dim // self.heads
        return {"sum": StateEntry((self.heads, K, K + 1), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        q, k, v = self._project(x)
        s, z, new_state = decay_with_normalizer(q, k, v, None, state["sum"] if state else None, lengths=lengths)
        return self._read(s, z), {"sum": new_state}

    @override
    def plots(self, x: Stream) -> list[View]:
        """One view per head of its weights; with several heads, first one of their mean."""
        q, k, _ = self._project(x[:1])
        products = (q @ k.mT)[0].tril()
        return of_heads(products / (products.sum(-1, keepdim=True) + self.eps))


@final
class BidirectionalLinearAttention(LinearFeatures, BidirectionalMixer):
    """Linear attention over whole rows."""

    traits = Traits(causal="never", streams=False, state="none")
    _price_sums = staticmethod(total.price)

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        q, k, v = self._project(x)
        ones = torch.ones_like(v[..., :1])
        sums = total.total(q, k, torch.cat([v, ones], -1), lengths)
        if lengths is not None:  # a row without tokens has 0, and its output is not used
            sums = torch.where((lengths > 0)[:, None, None, None], sums, 1.0)
        return self._read(*parts(sums))

    @override
    def plots(self, x: Stream) -> list[View]:
        """One view per head of its weights; with several heads, first one of their mean."""
        q, k, _ = self._project(x[:1])
        products = (q @ k.mT)[0]
        return of_heads(products / (products.sum(-1, keepdim=True) + self.eps))


def _feature(x: Tensor) -> Tensor:
    if is_transformed():
        return x.relu() + x.clamp(max=0.0).exp()
    y: Tensor = _Feature.apply(x)  # type: ignore[no-untyped-call]  # torch does not type apply
    return y


class _Feature(torch.autograd.Function):
    """elu(x) + 1, computed as e^x for negative x, since e^x - 1 + 1 would round a small e^x to 0.

    The derivative is the value itself where that is below 1, else 1; this needs fewer passes over memory than torch's.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.relu() + x.clamp(max=0.0).exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return dy * ctx.saved_tensors[0].clamp(max=1.0)


@register
class LinearConfig(MixerConfig):
    """The linear Transformer. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["linear"] = "linear"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    eps: float = Field(1e-6, ge=0, description="ε added to each denominator")
    traits: ClassVar = replace(TRAITS, causal="either")
    rounding: ClassVar = Rounding(
        300,
        "a head of one channel divides by what it multiplies, so its query's gradient is 0 but for about a rounding of "
        "each token's terms; these add up over tokens as other gradients do, of which a hundredth is the measure: 100 "
        "eps, and three times that in the largest entry of the matrix",
    )
    examples: ClassVar = ({"heads": 2}, {"heads": 1}, {"heads": 8})

    @override
    def make(self, layer: Layer) -> LinearFeatures:
        form = LinearAttention if layer.causal else BidirectionalLinearAttention
        return form(layer.dim, self.heads, self.eps)
