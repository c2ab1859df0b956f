"""ETC: tokens attend to their neighbors and to a few global tokens, one per segment of the text, which attend to all.

    u = norm(g)                                       x (B, T, D) the long input, g (B, S, D) the global one, S = ⌈T/s⌉
    y_i = Σ_j a_ij v_j W_out                          over the x_j with |i - j| ≤ r, and all u_j: masks l2l and l2g
    g_i ← g_i + Σ_j a_ij v_j W'_out                   over all u_j, and all x_j or those of its segment: g2g and g2l
    a_ij = softmax of q_i · (k_j + p_l(i,j)) / √K     one softmax for both inputs; p: K channels per label and head

The label l of two tokens of the same input is clip(j - i, ±k); that of a token of x and one of u says whether x is in
the segment of u. Queries of x and queries of u have tables p of their own. `projections` says whether W_q, W_k and W_v
are the same for all pairs of inputs (then a wide r is BERT's attention) or separate. g is handed from layer to layer;
initially it is one learned vector, the same for every segment. The last layer, and a mixer alone, does not change it.

For structured inputs the four masks are the user's: a kind of one's own derives from `ETCConfig` and overrides `masks`.

Code: s is `segment`, r is `radius`, k is `distance`.

Source: Ainslie et al., arXiv:2004.08483, section 3; one softmax for both inputs is `FusedGlobalLocalAttention` of the
authors' program. The paper's segments are sentences, which a mixer does not know; here they have `segment` tokens.
Global tokens pass the norm and the residual above, but no feed-forward network. The paper's second objective (CPC) is
`training.objective.kind=contrastive`, for every encoder. Seed 002 prints a softmax over g2g alone.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, layernorm, linear
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.layers.linear import Linear
from seqloom.mixers.cross_layer import BidirectionalCrossLayerMixer, CrossLayerTensors
from seqloom.mixers.patterned import BIDIRECTIONAL
from seqloom.ops.attention import attend, side_keys
from seqloom.ops.attention.drawing import rows
from seqloom.ops.attention.reference import price
from seqloom.ops.fused.projection import project


@final
class ETC(BidirectionalCrossLayerMixer):
    """Global-local attention: what it hands over to later layers are the global tokens (B, S, D)."""

    traits = BIDIRECTIONAL

    def __init__(self, config: "ETCConfig", layer: Layer) -> None:
        super().__init__()
        dim, heads = layer.dim, config.heads
        if dim % heads:
            divisors = ", ".join(str(n) for n in range(1, dim + 1) if dim % n == 0)
            raise ValueError(f"dim {dim} is not divisible by heads {heads}: choose heads from {divisors}")
        self.dim, self.heads, self.width, self.config = dim, heads, dim // heads, config
        self.last = layer.number == layer.depth - 1
        self.norm = nn.LayerNorm(dim)
        self.w_long = Linear(dim, 3 * dim, bias=False)
        self.labels_long = nn.Parameter(torch.randn(heads, config.labels, self.width) * 0.02)
        self.w_out = Linear(dim, dim, bias=False)
        if config.projections == "separate":
            self.w_l2g = Linear(dim, 2 * dim, bias=False)
        if not self.last:
            self.labels_global = nn.Parameter(torch.randn(heads, config.labels, self.width) * 0.02)
        if not self.last and config.projections == "separate":
            self.w_global = Linear(dim, 3 * dim, bias=False)
            self.w_g2l = Linear(dim, 2 * dim, bias=False)
            self.w_global_out = Linear(dim, dim, bias=False)

    @override
    def reset(self, std: float) -> None:
        """The labels, too, are N(0, std²)."""
        super().reset(std)
        for labels in (self.labels_long,) if self.last else (self.labels_long, self.labels_global):
            nn.init.normal_(labels, std=std)

    @override
    def mix_cross_layer(
        self, x: Stream, cross_layer: CrossLayerTensors, lengths: Lengths | None = None
    ) -> tuple[Stream, CrossLayerTensors]:
        config, T = self.config, x.shape[1]
        S = -(-T // config.segment)
        name = f"global_{config.segment}"
        g = cross_layer[name] if name in cross_layer else self._initial_global(x, S)
        u = self.norm(g)
        times = torch.arange(T + S, device=x.device).expand(len(x), -1)  # of x, then of u
        if lengths is not None:
            start = torch.where(times < T, times, (times - T) * config.segment)
            times = torch.where(start < lengths[:, None], times, -1)  # no query attends to a negative time

        q, k, v = self._by_heads(x, self.w_long.weight)
        k_l2g, v_l2g = self._by_heads(u, self._weight("w_l2g"))
        y = side_keys.attend(*(q, k, v, k_l2g, v_l2g, times), config.radius, **self._options(T, self.labels_long))
        y = self.w_out(y.transpose(1, 2).flatten(2))
        if self.last:
            return y, cross_layer

        shared = config.projections == "shared"
        q, k_g2g, v_g2g = self._by_heads(u, self._weight("w_global", 0))
        k_g2l, v_g2l = (k, v) if shared else self._by_heads(x, self._weight("w_g2l"))
        k, v = torch.cat([k_g2l, k_g2g], 2), torch.cat([v_g2l, v_g2g], 2)
        now = torch.arange(T, T + S, device=x.device).expand(len(x), -1)
        z = attend(q, k, v, query_time=now, key_time=times, **self._options(T, self.labels_global))
        out = self.w_out if shared else self.w_global_out
        return y, {**cross_layer, name: g + out(z.transpose(1, 2).flatten(2))}

    def _initial_global(self, x: Stream, S: int) -> Tensor:
        """The global tokens (B, S, D) of the first layer."""
        assert isinstance(self.shared, nn.Embedding)
        return self.shared.weight.expand(len(x), S, -1)

    def _weight(self, name: str, first: int = 1) -> Tensor:
        """The matrix of that name; if projections are shared, W_k and W_v of `w_long` (`first` 1), or all of it (0)."""
        if self.config.projections == "separate":
            weight: Tensor = getattr(self, name).weight
            return weight
        return self.w_long.weight[first * self.dim :]

    def _by_heads(self, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        """Each projection of x (B, T, D) by heads (B, H, T, K)."""
        return project(x, weight).unflatten(-1, (-1, self.heads, self.width)).permute(2, 0, 3, 1, 4).unbind()

    def _options(self, T: int, labels: Tensor) -> dict[str, Any]:
        """Arguments of `attend`: the pattern, and the addition of q · p of the pair's label, for `labels` (H, N, K)."""
        table = labels.mT

        def change(z: Tensor, q: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return z + (q @ table.to(q.dtype)).gather(-1, self.config.label(i, j, T).expand(z.shape))

        return {"pattern": self.config.masks(T), "score_change": change}

    @property
    @override
    def parts(self) -> list[nn.Module]:
        return [self.w_long, self.w_out]  # the others are priced in `price_terms`, by the rows that they have

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module | None]:
        config, D, T = self.config, self.dim, span.T
        S, shared = -(-T // config.segment), config.projections == "shared"
        global_keys = layernorm(S, D) + linear(S, D, 2 * D)
        long_price = self._attention_price(T, span.terms_around(config.radius + 1) + T * S)
        if self.last:
            return self.w_long, global_keys.parallel(), long_price, self.w_out
        pairs = S * S + (T if config.hard else T * S)
        projected = linear(S, D, 3 * D) + (Cost() if shared else linear(T, D, 2 * D))
        global_price = projected + self._attention_price(S, pairs) + linear(S, D, D) + Cost(add=S * D)
        return self.w_long, global_keys.parallel(), long_price, global_price.parallel(), self.w_out

    def _attention_price(self, rows: int, terms: int) -> Cost:
        """The price of attention with labels: of `rows` queries, with `terms` pairs of query and key in all."""
        H, K, N = self.heads, self.width, self.config.labels
        labels = Cost(mul=rows * H * N * K, add=rows * H * N * (K - 1) + H * terms, path=("addition",))
        return labels + price(rows, terms, self.dim, H)


@register
class ETCConfig(MixerConfig):
    """Windows and global tokens, one for each segment of the text; bidirectional."""

    kind: Literal["etc"] = "etc"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    radius: int = Field(84, ge=0, description="neighbors that a token attends to, on each side")
    segment: int = Field(64, ge=1, description="tokens of the text for each global token")
    distance: int = Field(
        12, ge=0, description="distance, in tokens, from which all distances share one label, on each side"
    )
    hard: bool = Field(False, description="whether a global token attends only to the tokens of its segment")
    projections: Literal["shared", "separate"] = Field(
        "shared", description="projections of queries, keys and values: shared by text and global tokens, or separate"
    )
    nearest: ClassVar = "longformer"
    traits: ClassVar = BIDIRECTIONAL
    examples: ClassVar = (
        {"heads": 2, "radius": 1, "segment": 2, "distance": 1},
        {"heads": 2, "radius": 2, "segment": 3, "distance": 2, "hard": True, "projections": "separate"},
    )
    rounding: ClassVar = Rounding(
        2048, "the global tokens of the first layer are all alike: of 4,096 / 2 equal terms a sum rounds to one side"
    )
    drawings: ClassVar = (
        {"heads": 1, "radius": 2, "segment": 5, "causal": False},
        {"heads": 1, "radius": 2, "segment": 5, "hard": True, "causal": False},
    )

    @property
    def labels(self) -> int:
        """The number of labels: one per distance, one for x in the segment of u, and one for x in another segment."""
        return 2 * self.distance + 3

    def masks(self, T: int) -> Callable[[Tensor, Tensor], Tensor]:
        """The four masks as a pattern over times, of the T tokens of x and then of the global tokens.

        Tokens of x farther apart than `radius` must stay hidden from each other; the price counts all others as seen.
        """

        def visible_pairs(i: Tensor, j: Tensor) -> Tensor:
            local = (i - j).abs() <= self.radius
            same_segment = (i - T == j // self.segment) | (not self.hard)
            return torch.where(i < T, local | (j >= T), same_segment | (j >= T))

        return visible_pairs

    def label(self, i: Tensor, j: Tensor, T: int) -> Tensor:
        """The number of the label of a query at time i and a key at time j."""
        same_input = (i < T) == (j < T)
        by_distance = (j - i).clamp(-self.distance, self.distance) + self.distance
        segment_i, segment_j = (torch.where(t < T, t // self.segment, t - T) for t in (i, j))
        by_segment = torch.where(segment_i == segment_j, 2 * self.distance + 1, 2 * self.distance + 2)
        return torch.where(same_input, by_distance, by_segment)

    @override
    def draw_pattern(self, T: int, causal: bool) -> dict[str, list[str]]:
        """The last of the T positions are those of global tokens."""
        long = T * self.segment // (self.segment + 1)
        time = torch.arange(T)
        i, j = time[:, None], time[None]
        visible = self.masks(long)(i, j)
        return {"all heads": rows([("g", visible & ((i >= long) | (j >= long))), ("w", visible)])}

    @override
    def distinct(self, depth: int) -> int:
        return depth  # the last layer does not change the global tokens

    @override
    def make(self, layer: Layer) -> ETC:
        return ETC(self, layer)

    @override
    def shared_module(self, layer: Layer) -> nn.Module:
        """The initial global token (1, D), the same for every segment."""
        return nn.Embedding(1, layer.dim)
