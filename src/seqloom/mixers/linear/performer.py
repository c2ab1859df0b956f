"""Performer: attention whose weights are products of random features, so that the past of a token is one matrix.

    q = x W_q,  k = x W_k,  v = x W_v                    cut into H heads of width K = D/H; no biases
    φ(x) = features of x / K^¼ along R random directions, so that E φ(q)·φ(k) = e^{q·k / √K}      (softmax, hyperbolic)
    S_t = S_{t-1} + φ(k_t)ᵀ v_t,   z_t = z_{t-1} + φ(k_t)
    y = concat_h(φ(q_t) S_t / φ(q_t)·z_t) W_out

In the bidirectional form every query uses the sums over all tokens, and M is the largest exponent of all keys.

z is stored as a column of S, of values that are 1. S and z are held divided by e^M, M a head's largest exponent of a
key so far. Directions are orthogonal in each block of K (`seqloom.ops.random_features.draws`), and rounded to bfloat16.

Source: Choromanski et al., Rethinking Attention with Performers, arXiv:2009.14794, Eq. 4-9 and 13. Seed 004 leaves out
1/√R, K^¼ and in its Eq. 11 the normalizer. Ours: no 1e-4 is added to each feature, causal keys are stabilized by the
maximum so far instead of over the whole sequence, which looks ahead, and each head has directions of its own; for the
ReLU kernel, which is no softmax, ε = 1e-3 is the authors'. A normalizer below 1e-25, where no key so far shares a
feature with the query, is replaced by 1e-25, so that y goes to 0.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, final

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
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.random_features import LOWEST, along, average, draws, features, positive_whole, whole
from seqloom.ops.random_features.reference import average_price, features_price, whole_price

TRAITS = Traits(causal="always", streams=True, state="constant")


class RandomFeatures(Mixer, ABC):
    """What both forms share: R = `rows` directions per head, drawn from a seed and drawn again in training."""

    directions: Tensor
    seed: Tensor

    def __init__(self, dim: int, heads: int, rows: int, kernel: str, redraw_every: int) -> None:
        super().__init__()
        self.dim, self.heads, self.kernel, self.redraw_every = dim, heads, kernel, redraw_every
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.register_buffer("directions", torch.empty(heads, rows, dim // heads))
        self.register_buffer("seed", draws.fresh().to(self.directions.device))
        draws.redraw(self.directions, self.seed, draws.orthogonal)

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """New directions every `redraw_every` steps, from the seed in the checkpoint."""
        if self.redraw_every and step % self.redraw_every == 0:
            draws.redraw(self.directions, self.seed, draws.orthogonal)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, (H, R, K) = span.rows, self.directions.shape
        feature = Cost(div=rows * self.dim, path=("division",)) + features_price(rows, self.kernel, H, R, K)
        return self.w_q, feature, feature.parallel(), self._price_average(rows, H, self._per_head, K), self.w_out

    @staticmethod
    @abstractmethod
    def _price_average(n: int, H: int, F: int, V: int) -> Cost:
        """The price of the sums, of their products with queries, and of the division."""

    @property
    def _per_head(self) -> int:
        """F, the number of features of a head."""
        return self.directions.shape[1] * (2 if self.kernel == "hyperbolic" else 1)

    def _heads(self, x: Tensor) -> Tensor:
        """x (B, T, D) by heads (B, H, T, K)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _scale_heads(self, x: Stream) -> tuple[Tensor, Tensor]:
        """q and k (B, H, T, K), divided by K^¼."""
        q, k = (features.exact(self._heads(w(x))) / self.directions.shape[2] ** 0.25 for w in (self.w_q, self.w_k))
        return q, k


@final
class Performer(RandomFeatures, PackedMixer):
    """Causal random-feature attention over `dim` channels. State: S, z and M."""

    traits = TRAITS
    _price_average = staticmethod(average_price)

    @property
    @override
    def state_spec(self) -> StateSpec:
        """S with z (B, H, F, V+1) and M (B, H)."""
        s = StateEntry((self.heads, self._per_head, self.dim // self.heads + 1), "wide")
        return {"s": s} if self.kernel == "relu" else {"s": s, "peak": StateEntry((self.heads,), "wide", LOWEST)}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        v = self._heads(self.w_v(x))
        q, k, log_decay, peak = self._features(x, state, lengths)
        y, s = average(q, k, v, log_decay, state["s"] if state else None, lengths=lengths)
        out = self.w_out(y.transpose(1, 2).flatten(2).to(x.dtype))
        return out, {"s": s} if peak is None else {"s": s, "peak": peak}

    @override
    def plots(self, x: Stream) -> list[View]:
        """The weights of each head, after their mean where there are several."""
        q, k, log_decay, _ = self._features(x[:1])
        values = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        weights, _ = average(q, k, values, log_decay)
        return of_heads(weights[0], ", as estimated by the features")

    def _features(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """φ(q) and φ(k) (B, H, T, F), and log e^{M_{t-1} - M_t} and M of `positive`: None for the ReLU kernel."""
        q, k = self._scale_heads(x)
        if self.kernel == "relu":
            return features.relu(q, self.directions), features.relu(k, self.directions), None, None
        return along(q, k, self.directions, self.kernel, state["peak"] if state else None, lengths=lengths)


@final
class BidirectionalPerformer(RandomFeatures, BidirectionalMixer):
    """Random-feature attention over whole rows."""

    traits = Traits(causal="never", streams=False, state="none")
    _price_average = staticmethod(whole_price)

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        q, k = self._features(x, lengths)
        y = whole(q, k, self._heads(self.w_v(x)), lengths=lengths)
        return self.w_out(y.transpose(1, 2).flatten(2).to(x.dtype))

    @override
    def plots(self, x: Stream) -> list[View]:
        """The weights of each head, after their mean where there are several."""
        q, k = self._features(x[:1])
        values = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        return of_heads(whole(q, k, values)[0], ", as estimated by the features")

    def _features(self, x: Stream, lengths: Lengths | None = None) -> tuple[Tensor, Tensor]:
        """φ(q) and φ(k) (B, H, T, F)."""
        q, k = self._scale_heads(x)
        if self.kernel == "relu":
            return features.relu(q, self.directions), features.relu(k, self.directions)
        q, k = (features.LOGARITHMS[self.kernel](z, self.directions) for z in (q, k))
        return positive_whole(q, k, lengths=lengths)


@register
class PerformerConfig(MixerConfig):
    """Random-feature attention (FAVOR+).

    It reads all earlier tokens; the context only sizes the model's positions.
    """

    kind: Literal["performer"] = "performer"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    features: int = Field(
        0, ge=0, description="random directions per head; 0 for K ln K, rounded, with heads of width K"
    )
    kernel: Literal["softmax", "hyperbolic", "relu"] = Field(
        "softmax", description="function that the features approximate; hyperbolic has two features per direction"
    )
    redraw_every: int = Field(
        1000, ge=0, description="training steps between draws of the random directions; 0: never redrawn"
    )
    traits: ClassVar = replace(TRAITS, causal="either")
    rounding: ClassVar = Rounding(2800, "a query whose few features are all near 0 divides by their sum")
    examples: ClassVar = (
        {"heads": 2},
        {"heads": 2, "features": 5, "kernel": "hyperbolic", "redraw_every": 3},
        {"heads": 8, "features": 3, "kernel": "relu"},
    )

    @override
    def make(self, layer: Layer) -> RandomFeatures:
        """Raises ValueError if the heads do not divide dim."""
        if layer.dim % self.heads:
            divisors = ", ".join(str(n) for n in range(1, layer.dim + 1) if layer.dim % n == 0)
            raise ValueError(f"dim {layer.dim} is not divisible by heads {self.heads}: choose heads from {divisors}")
        K = layer.dim // self.heads
        rows = self.features or max(1, round(K * math.log(K)))
        form = Performer if layer.causal else BidirectionalPerformer
        return form(layer.dim, self.heads, rows, self.kernel, self.redraw_every)
