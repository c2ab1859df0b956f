"""RFA: attention whose weights are products of sines and cosines along random directions, and that may learn to forget.

    q = x W_q,  k = x W_k,  v = x W_v                    cut into H heads of width K = D/H; no biases
    x̂ = x / √(|x|² + 1e-6),   φ(x) = [sin(w·(σ∘x̂)), cos(w·(σ∘x̂))] / √R      R random directions w; σ (H, K) learned
    g_t = sigmoid(x_t W_gate + b)                        one per head; without the gate g and 1 - g become 1
    S_t = g_t S_{t-1} + (1 - g_t) φ(k_t)ᵀ v_t,   z_t = g_t z_{t-1} + (1 - g_t) φ(k_t)
    y = concat_h(φ(q_t) S_t / max(φ(q_t)·z_t, 0.1 s_t)) W_out      s_t = 1 - Π_{j≤t} g_j, ungated t

The bidirectional form has no gate, since a gate needs an order: every query uses the sums over all T tokens, s_t = T.

z is stored as a column of S, of values that are 1. For σ = (s, …, s) the product of two features is e^{s² (q̂·k̂ - 1)}
in the mean.

Source: Peng et al., Random Feature Attention, arXiv:2103.02143, Eq. 2-7, section 3.3 and its learned σ. Seed 002 omits
e^· around -|x-y|²/2σ² and the gate. A product of such features can be negative, while the kernel is at least e^{-2s²},
0.14 for s = 1, as |q̂|, |k̂| ≤ 1. The paper divides by φ(q)·z itself, its authors' code by no less than a constant,
although with the factor 1 - g the right denominator can be smaller. Our bound is proportional to s_t (and at least
1e-25, so that y goes to 0 if gates are within 1e-24 of 1). Directions are rounded to bfloat16 and drawn again after
each update, where the authors choose from 200 draws made beforehand; the last draw is what is evaluated.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
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
from seqloom.core.view import View, of_heads
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.random_features import SHARE, average, count_tokens, draws, features, sum_gates, whole
from seqloom.ops.random_features.reference import (
    average_price,
    even_price,
    features_price,
    gates_price,
    unit_price,
    whole_price,
)

TRAITS = Traits(causal="always", streams=True, state="constant")


class TrigonometricFeatures(Mixer, ABC):
    """What both forms share: R = `rows` directions per head, drawn from a seed and drawn again in training, and σ."""

    directions: Tensor
    seed: Tensor

    def __init__(self, dim: int, heads: int, rows: int, gate: bool, redraw_every: int) -> None:
        super().__init__()
        self.dim, self.heads, self.redraw_every = dim, heads, redraw_every
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.w_gate = Linear(dim, heads) if gate else None
        self.sigma = nn.Parameter(torch.ones(heads, dim // heads))
        self.register_buffer("directions", torch.empty(heads, rows, dim // heads))
        self.register_buffer("seed", draws.fresh().to(self.directions.device))
        draws.redraw(self.directions, self.seed, draws.draw_independent)

    @override
    def reset(self, std: float) -> None:
        """Initializes σ to 1 and the gate to 1/2, as in the authors' code."""
        super().reset(std)
        nn.init.ones_(self.sigma)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        """σ is not decayed, since 0 would make every weight the same."""
        others = [parameter for parameter in self.parameters() if parameter is not self.sigma]
        return [{"params": others}, {"params": [self.sigma], "weight_decay": 0.0}]

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """New directions every `redraw_every` steps, from the seed in the checkpoint."""
        if self.redraw_every and step % self.redraw_every == 0:
            draws.redraw(self.directions, self.seed, draws.draw_independent)

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, D, (H, R, K) = span.rows, self.dim, self.directions.shape
        scaled = unit_price(rows, H, K) + Cost(mul=rows * D, path=("multiplication",))
        feature = scaled + features_price(rows, "trigonometric", H, R, K)
        return self.w_q, feature, feature.parallel(), *self._price_average(rows, H, 2 * R, K), self.w_out

    @abstractmethod
    def _price_average(self, n: int, H: int, F: int, V: int) -> Iterable[Cost]:
        """The prices of the sums and of their products with queries, and of the weights."""

    def _heads(self, x: Tensor) -> Tensor:
        """x (B, T, D) by heads (B, H, T, K)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _features(self, x: Stream) -> tuple[Tensor, Tensor]:
        """φ(q) and φ(k) (B, H, T, 2R)."""
        q, k = (features.unit(self._heads(w(x))) * self.sigma[:, None] for w in (self.w_q, self.w_k))
        return features.trigonometric(q, self.directions), features.trigonometric(k, self.directions)


@final
class RandomFeatureAttention(TrigonometricFeatures, PackedMixer):
    """Causal attention by trigonometric features over `dim` channels. State: S, z and Σ log g."""

    traits = TRAITS

    @property
    @override
    def state_spec(self) -> StateSpec:
        """S with z (B, H, 2R, V+1) and Σ log g (B, H)."""
        H, R, K = self.directions.shape
        s = StateEntry((H, 2 * R, K + 1), "wide")
        return {"s": s} if self.w_gate is None else {"s": s, "log_kept": StateEntry((H,), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        v = self._heads(self.w_v(x))
        q, k = self._features(x)
        log_gate, weight, floor, gates = self._gates(x, q, state, lengths)
        y, s = average(q, k, v, log_gate, state["s"] if state else None, weight, floor, lengths=lengths)
        out = self.w_out(y.transpose(1, 2).flatten(2).to(x.dtype))
        return out, {"s": s, **gates}

    @override
    def plots(self, x: Stream) -> list[View]:
        """The weights of each head, after their mean, and what the gates keep."""
        q, k = self._features(x[:1])
        log_gate, weight, floor, _ = self._gates(x[:1], q)
        values = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        weights, _ = average(q, k, values, log_gate, None, weight, floor)
        result = of_heads(weights[0], "; may be negative")
        if self.w_gate is not None:
            meaning = "how much of its memory a head keeps when it reads a token"
            result.append(View("gates", meaning, ("token", "head"), self.w_gate(x[0]).sigmoid()))
        return result

    @override
    def _price_average(self, n: int, H: int, F: int, V: int) -> Iterable[Cost]:
        weights = even_price(n, H) if self.w_gate is None else gates_price(n, H, F, V)
        return average_price(n, H, F, V), weights

    def _gates(
        self, x: Stream, q: Tensor, state: State | None = None, lengths: Lengths | None = None
    ) -> tuple[Tensor | None, Tensor | None, Tensor, Entries]:
        """log g, 1 - g and 0.1 s (B, H, T), and the entry Σ log g; without the gate None, None, 0.1 t and no entry."""
        if self.w_gate is None:
            return None, None, count_tokens(q, state["length"] if state else None), {}
        past_log_kept = state["log_kept"] if state else None
        log_gate, weight, floor, log_kept = sum_gates(self.w_gate(x).mT, past_log_kept, lengths=lengths)
        return log_gate, weight, floor, {"log_kept": log_kept}


@final
class BidirectionalRandomFeatureAttention(TrigonometricFeatures, BidirectionalMixer):
    """Attention by trigonometric features over whole rows."""

    traits = Traits(causal="never", streams=False, state="none")

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        q, k = self._features(x)
        y = whole(q, k, self._heads(self.w_v(x)), self._floor(x, lengths), lengths=lengths)
        return self.w_out(y.transpose(1, 2).flatten(2).to(x.dtype))

    @override
    def plots(self, x: Stream) -> list[View]:
        """The weights of each head, after their mean."""
        q, k = self._features(x[:1])
        values = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(1, self.heads, -1, -1)
        return of_heads(whole(q, k, values, self._floor(x[:1]))[0], "; may be negative")

    @override
    def _price_average(self, n: int, H: int, F: int, V: int) -> Iterable[Cost]:
        return whole_price(n, H, F, V), Cost(mul=min(n, 1), other=n * H)  # the floor is one number per row

    def _floor(self, x: Stream, lengths: Lengths | None = None) -> Tensor:
        """0.1 T (B, 1, 1, 1), the smallest denominators of each row."""
        tokens = x.new_full((len(x),), x.shape[1]) if lengths is None else lengths.to(x.dtype)
        return SHARE * features.exact(tokens)[:, None, None, None]


@register
class RFAConfig(MixerConfig):
    """Random feature attention, with or without a gate.

    It reads all earlier tokens; the context only sizes the model's positions.
    """

    kind: Literal["rfa"] = "rfa"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    features: int = Field(
        0, ge=0, description="random directions per head, each with two features; 0 for the width of a head"
    )
    gate: bool = Field(True, description="whether each head has a forget gate computed from the token")
    redraw_every: int = Field(
        1, ge=0, description="training steps between draws of the random directions; 0: never redrawn"
    )
    traits: ClassVar = replace(TRAITS, causal="either")
    rounding: ClassVar = Rounding(3000, "a query whose few random features nearly cancel divides by their sum")
    examples: ClassVar = ({"heads": 2}, {"heads": 2, "features": 5, "gate": False, "redraw_every": 0}, {"heads": 8})

    @property
    @override
    def has_bidirectional(self) -> bool:
        return not self.gate

    @override
    def make(self, layer: Layer) -> TrigonometricFeatures:
        """Raises ValueError if the heads do not divide dim."""
        if layer.dim % self.heads:
            divisors = ", ".join(str(n) for n in range(1, layer.dim + 1) if layer.dim % n == 0)
            raise ValueError(f"dim {layer.dim} is not divisible by heads {self.heads}: choose heads from {divisors}")
        form = RandomFeatureAttention if layer.causal else BidirectionalRandomFeatureAttention
        return form(layer.dim, self.heads, self.features or layer.dim // self.heads, self.gate, self.redraw_every)
