"""The linear Transformer: attention whose weights are products of positive features, so that the past is one matrix.

    q = φ(x W_q),  k = φ(x W_k),  v = x W_v        cut into H heads of width K = D/H; no biases
    φ(a) = elu(a) + 1, or learned features (`seqloom.layers.feature_maps`)
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
from typing import ClassVar, Literal, TypeAlias, final

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
from seqloom.core.view import View, of_heads
from seqloom.layers.feature_maps import Elu, FeatureMap, Hedgehog
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.linear_decay import decay_with_normalizer, total
from seqloom.ops.linear_decay.reference import price
from seqloom.ops.linear_decay.weighted import parts, quotient

TRAITS = Traits(causal="always", streams=True, state="constant")
Features: TypeAlias = Literal["elu", "hedgehog"]


class LinearFeatures(Mixer, ABC):
    """What both forms share: projections into H heads and their features."""

    def __init__(self, dim: int, heads: int, eps: float, features: Features) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads that divide dim")
        self.dim, self.heads, self.eps = dim, heads, eps
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.feature_q, self.feature_k = (_feature_map(features, heads, dim // heads) for _ in "qk")

    @override
    def reset(self, std: float) -> None:
        """Learned features are those of the start again."""
        super().reset(std)
        self.feature_q.init()
        self.feature_k.init()

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, D, H, K = span.rows, self.dim, self.heads, self.dim // self.heads
        divided = Cost(add=rows * H, div=rows * D, path=("addition", "division"))
        return self.w_q, self.feature_q, self._price_sums(rows, H, self.feature_q.width, K + 1), divided, self.w_out

    @staticmethod
    @abstractmethod
    def _price_sums(rows: int, H: int, K: int, V: int) -> Cost:
        """The price of the sums S and z, and of their products with queries."""

    def _read(self, s: Tensor, z: Tensor) -> Stream:
        """The outputs (B, T, D), from s = q_t S_t (B, H, T, K) and z = q_t · z_t (B, H, T) of each query."""
        y = quotient(s, z + self.eps)
        return self.w_out(y.transpose(1, 2).flatten(2))

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The features (B, H, T, F) of queries and keys, and the values (B, H, T, K)."""
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        return self.feature_q(q), self.feature_k(k), v


@final
class LinearAttention(LinearFeatures, PackedMixer):
    """Causal linear attention over `dim` channels. State: S with its normalizer (B, H, F, K+1); F is K, or 2K."""

    traits = TRAITS
    _price_sums = staticmethod(price)

    @property
    @override
    def state_spec(self) -> StateSpec:
        K = self.dim // self.heads
        return {"sum": StateEntry((self.heads, self.feature_k.width, K + 1), "wide")}

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


def _feature_map(kind: Features, heads: int, width: int) -> FeatureMap:
    return Elu(heads, width) if kind == "elu" else Hedgehog(heads, width)


@register
class LinearConfig(MixerConfig):
    """The linear Transformer. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["linear"] = "linear"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    eps: float = Field(1e-6, ge=0, description="ε added to each denominator")
    features: Features = Field(
        "elu", description="φ; hedgehog: learned, twice as wide, to imitate the weights of a softmax"
    )
    later: ClassVar = ("features",)
    traits: ClassVar = replace(TRAITS, causal="either")
    rounding: ClassVar = Rounding(
        300,
        "a head of one channel divides by what it multiplies, so its query's gradient is 0 but for about a rounding of "
        "each token's terms; these add up over tokens as other gradients do, of which a hundredth is the measure: 100 "
        "eps, and three times that in the largest entry of the matrix",
    )
    examples: ClassVar = ({"heads": 2}, {"heads": 1}, {"heads": 8}, {"heads": 2, "features": "hedgehog"})

    @override
    def make(self, layer: Layer) -> LinearFeatures:
        form = LinearAttention if layer.causal else BidirectionalLinearAttention
        return form(layer.dim, self.heads, self.eps, self.features)
