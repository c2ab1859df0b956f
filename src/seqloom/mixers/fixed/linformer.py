"""Linformer: attention over a few landmarks, learned mixtures of all keys and of all values.

    q = x W_q,   k = x W_k,   v = x W_v                     H heads of width K = D/H; no biases
    k̃ = E k,   ṽ = F v                                      E, F (N, L): N = `k` landmarks of L = `context` tokens
    z_in = q_i · k̃_n / √K,   a_in = e^{z_in} / Σ_n' e^{z_in'},   out = concat_h(Σ_n a_in ṽ_n) W_out

`share` says which E and F are the same: `none` (one of each per head), `heads` (one of each per layer), `keys_values`
(E = F, one per layer) or `layers` (E = F, one for all layers). `projection` may replace E and F by stretches of ⌈L/N⌉
tokens, each reduced to its mean or maximum per channel, or by a convolution with as many taps per channel. If `last_k`
is set, N changes from `k` in the first layer to `last_k` in the last, by equal factors.

There is no causal form: a landmark is a mixture of all tokens. The nearest kind with a causal form is `linear`. A row
of T < L tokens is mixed by the first T columns of E and F; L is the largest number of tokens.

Source: Wang et al., Linformer, arXiv:2006.04768, Eq. 7 and section 4. The paper names pooling and convolution without
details: taps per channel, E and F drawn from N(0, 1/L), and equal factors are ours. Seed 002 prints E and F transposed.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias, cast, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.attention import attend, everywhere
from seqloom.ops.attention.reference import price
from seqloom.ops.past import stretches

TRAITS = Traits(causal="never", streams=False, state="none")
Share: TypeAlias = Literal["none", "heads", "keys_values", "layers"]


@final
class Landmarks(nn.Module):
    """E and F: matrices (…, N, L), or taps (⌈L/N⌉, D). Values have their own unless they share those of keys."""

    def __init__(self, shape: tuple[int, ...], shared: bool, std: float) -> None:
        super().__init__()
        self.std = std
        self.keys = nn.Parameter(torch.empty(shape))
        self.values = None if shared else nn.Parameter(torch.empty(shape))
        self.init()

    def init(self) -> None:
        """Draws E and F, from N(0, std²)."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=self.std)

    @property
    def for_values(self) -> Tensor:
        """F, or its taps."""
        return self.keys if self.values is None else self.values

    def price(self, span: Span) -> Cost:
        """0: the mixer prices its products with E and F."""
        return Cost()


@final
class Linformer(BidirectionalMixer):
    """Attention of every token to landmarks, over `dim` channels."""

    def __init__(self, config: "LinformerConfig", layer: Layer) -> None:
        super().__init__()
        D, H = layer.dim, config.heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}: choose heads that divide dim")
        self.dim, self.heads, self.config = D, H, config
        self.context = _context(layer)
        self.landmarks = config.layer_landmarks(layer)
        self.width = -(-self.context // self.landmarks)
        self.traits = replace(TRAITS, longest=self.context)
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(D, D, bias=False) for _ in range(4))
        self.own = None if layer.shared is not None else config.mixtures(layer)

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        for module in self.children():
            if isinstance(module, Landmarks):  # the model initializes those that its layers share
                module.init()

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        T = x.shape[1]
        if self.context < T:
            raise ValueError(f"linformer mixes at most {self.context} tokens, not {T}: build it with a larger context")
        mixtures = self.mixtures
        q = self._by_head(self.w_q(x))
        k = self._mix_landmarks(self.w_k(x), None if mixtures is None else mixtures.keys, lengths)
        v = self._mix_landmarks(self.w_v(x), None if mixtures is None else mixtures.for_values, lengths)
        y = attend(q, k, v, pattern=everywhere, key_time=self._time(k, lengths))
        out: Tensor = self.w_out(y.transpose(1, 2).flatten(2))
        return out

    @property
    def mixtures(self) -> Landmarks | None:
        """The matrices E and F, or the taps of a convolution; None if stretches are pooled."""
        return cast(Landmarks | None, self.own if self.own is not None else self.shared)

    @override
    def plots(self, x: Stream) -> list[View]:
        mixtures = self.shared if self.mixtures is None else self.mixtures
        if mixtures is None or self.config.projection != "linear":
            return []
        assert isinstance(mixtures.keys, Tensor)
        strength = mixtures.keys.square().mean(0).sqrt()
        return [
            View(
                "E",
                "weight of a token's key in a landmark, root mean square over heads",
                ("landmark", "token"),
                strength,
            )
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        T, D, method = span.rows, self.dim, self.config.projection
        if method == "linear":
            N = self.landmarks
            mixed = Cost(mul=N * T * D, add=N * max(T - 1, 0) * D, path=("multiplication", "cumulation"))
        else:
            N, mixed = -(-T // self.width), stretches.price(T, D, self.width, method)
        return self.w_k, mixed, mixed.parallel(), price(T, T * N, D, self.heads), self.w_out

    def _mix_landmarks(self, x: Tensor, mixture: Tensor | None, lengths: Lengths | None) -> Tensor:
        """The landmarks (B, H, N, K) of keys or values x (B, T, D)."""
        method = self.config.projection
        if method == "linear":
            assert mixture is not None
            return mixture[:, :, : x.shape[1]] @ self._by_head(x)
        return self._by_head(stretches.pool_stretches(x, self.width, method, mixture, lengths))

    def _time(self, k: Tensor, lengths: Lengths | None) -> Tensor | None:
        """Key times (B, N), negative for the landmarks of stretches without a token; None if there are none."""
        if lengths is None or self.config.projection == "linear":
            return None
        return -stretches.empty(lengths, self.width, k.shape[2]).long()

    def _by_head(self, x: Tensor) -> Tensor:
        """x (B, T, D) by heads (B, H, T, K)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _context(layer: Layer) -> int:
    """L. ValueError without a context."""
    if layer.context is None or layer.context < 1:
        raise ValueError(f"linformer needs a context of 1 or more, the most tokens that it mixes, not {layer.context}")
    return layer.context


@register
class LinformerConfig(MixerConfig):
    """Attention to learned landmarks, bidirectional. It reads at most `context` tokens."""

    kind: Literal["linformer"] = "linformer"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    k: int = Field(64, ge=1, description="landmarks per layer, or of the first layer; at most the context")
    last_k: int | None = Field(
        None, ge=1, description="landmarks of the last layer, in a geometric series from k; unset: k"
    )
    share: Share = Field(
        "layers",
        description="which projections are shared: none, across heads, also between keys and values, or also across "
        "layers",
    )
    projection: Literal["linear", "mean", "max", "conv"] = Field(
        "linear", description="how landmarks are computed: a learned projection, mean pooling, or a strided convolution"
    )
    nearest: ClassVar = "linear"
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        192, "the largest keys of long stretches are alike: queries' gradients are differences"
    )
    examples: ClassVar = (
        {"heads": 2, "k": 2},
        {"heads": 2, "k": 3, "share": "none"},
        {"heads": 1, "k": 2, "share": "keys_values", "projection": "conv"},
        {"heads": 4, "k": 2, "projection": "mean"},
        {"heads": 2, "k": 2, "share": "heads", "projection": "max"},
    )

    @model_validator(mode="after")
    def _alike(self) -> "LinformerConfig":
        if self.share == "layers" and self.projection in ("linear", "conv") and self.last_k not in (None, self.k):
            raise ValueError("layers with different numbers of landmarks share none: choose share: keys_values")
        return self

    @override
    def distinct(self, depth: int) -> int:
        return 1 if self.last_k in (None, self.k) else depth

    @override
    def shared_module(self, layer: Layer) -> nn.Module | None:
        return self.mixtures(layer) if self.share == "layers" else None

    def mixtures(self, layer: Layer) -> Landmarks | None:
        """E and F, or the taps of the convolution; None if stretches are pooled."""
        N, L = self.layer_landmarks(layer), _context(layer)
        shared = self.share in ("keys_values", "layers")
        if self.projection == "linear":
            return Landmarks((self.heads if self.share == "none" else 1, N, L), shared, L**-0.5)
        if self.projection == "conv":
            width = -(-L // N)
            return Landmarks((width, layer.dim), shared, width**-0.5)
        return None

    def layer_landmarks(self, layer: Layer) -> int:
        """The number of landmarks of a layer. ValueError if it is above the context."""
        last = self.k if self.last_k is None else self.last_k
        N = round(self.k * (last / self.k) ** (layer.number / max(layer.depth - 1, 1)))
        if _context(layer) < N:
            raise ValueError(f"{N} landmarks of {layer.context} tokens: choose a k of at most the context")
        return N

    @override
    def make(self, layer: Layer) -> Linformer:
        return Linformer(self, layer)
