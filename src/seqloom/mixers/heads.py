"""Heads of attention: their settings, the projections of queries, keys and values, and how scores are changed.

    [q k v] = x W_qkv + b_qkv                 W_qkv = [W_q W_k W_v]; H heads of q, G of k and v, width K, D/H by default
    u_t ← Σ_{l<W} taps_l ∘ u_{t-l}            with a `kernel` W > 1, of each channel u of q, k and v
    out = concat_h(y_h) W_out + b_out         or (concat_h(y_h) ∘ σ(x W_g)) W_out + b_out

The mixers that use this file choose which keys a query attends to.
"""

from abc import ABC
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.config import SizedConfig
from seqloom.core.cost import Cost, Span, gate, rootnorm
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.position import Place, PositionConfig, QueriesKeysPosition, Relation, RelativePosition
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.layers.linear import Linear
from seqloom.ops.attention import Bias
from seqloom.ops.attention.reference import decay_price, price
from seqloom.ops.fused.projection import project
from seqloom.ops.fused.rms_norm import RMSNorm
from seqloom.ops.lag_sum import taps, window
from seqloom.positions import AnyPosition

PLACES: frozenset[Place] = frozenset({"queries_keys", "scores", "keys_values"})
"""where a position can act in heads that attend to all keys"""


class HeadSettings(SizedConfig, ABC):
    """The heads of a layer: how many, what is done to queries, keys and scores, and to the output."""

    heads: int = Field(4, ge=1, description="heads; divides dim (the paper compares 1 to 128 and takes 32)")
    kv_heads: int | None = Field(
        None, ge=1, description="heads of keys and values; divides heads; unset: as many as heads"
    )
    bias: Literal["none", "qkv", "out", "all"] = Field(
        "none",
        description="which projections have biases: none, queries, keys and values (Qwen2), the output "
        "(RecurrentGemma), or all (GPT-2)",
    )
    qk_norm: Literal["none", "heads", "all"] = Field(
        "none", description="RMS norm of queries and keys: none, per head (Qwen3), or over all heads (OLMo 2)"
    )
    qk_norm_eps: float = Field(1e-6, gt=0, description="ε of the norms of queries and keys")
    scale: float | None = Field(None, gt=0, description="factor of the scores; unset: 1/√width; T5 has 1")
    softcap: float | None = Field(None, gt=0, description="c of z → c tanh(z/c), which caps scores (Gemma 2)")
    sinks: bool = Field(False, description="whether each head has a learned score for attending to nothing (gpt-oss)")
    output_gate: bool = Field(
        False,
        description="whether the output of the heads is multiplied by a gate computed from the token (Qwen3-Next)",
    )
    position: AnyPosition | None = Field(None, description="kind of position information; unset: the model's")

    kernel: int = Field(
        1, ge=1, description="width, in tokens, of a causal convolution of queries, keys and values; 1: none"
    )

    @field_validator("position", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("position")
    @classmethod
    def _has_place(cls, value: PositionConfig | None) -> PositionConfig | None:
        if value is not None and value.place is not None and value.place not in PLACES:
            raise ValueError(
                f"{value.kind} positions act on the {value.place} of a model, and attention has no place for them: "
                "choose them as model.position"
            )
        return value

    @model_validator(mode="after")
    def _check_groups(self) -> "HeadSettings":
        if self.qk_norm == "none" and self.qk_norm_eps != HeadSettings.model_fields["qk_norm_eps"].default:
            raise ValueError("qk_norm_eps is that of norms of queries and keys: set qk_norm, or leave it out")
        if self.kv_heads is not None and self.heads % self.kv_heads:
            divisors = ", ".join(str(n) for n in range(1, self.heads + 1) if self.heads % n == 0)
            raise ValueError(
                f"heads {self.heads} are not divisible by kv_heads {self.kv_heads}: choose from {divisors}"
            )
        return self

    @property
    def plain(self) -> bool:
        """Whether no setting here changes the scores q_i · k_j / √K; a position still may."""
        return self.scale is None and self.softcap is None and not self.sinks

    def effective_position(self, position: PositionConfig | None) -> PositionConfig | None:
        """The position of these heads: their own, or else the model's; None if it acts nowhere or there is none."""
        if self.position is not None:
            position = self.position
        return None if position is None or position.place is None else position

    def head_width(self, dim: int) -> int:
        """The channels of a head in a layer of `dim` channels. ValueError where heads do not divide them."""
        if dim % self.heads:
            divisors = ", ".join(str(n) for n in range(1, dim + 1) if dim % n == 0)
            raise ValueError(f"dim {dim} is not divisible by heads {self.heads}: choose heads from {divisors}")
        return dim // self.heads

    def sizes(self, layer: Layer) -> tuple[int, int | None, int, int, bool]:
        """The arguments of `PositionConfig.build`: width of a head, context, heads, heads of keys, whether causal."""
        return self.head_width(layer.dim), layer.context, self.heads, self.kv_heads or self.heads, layer.causal


class Heads(Mixer, ABC):
    """The projections of queries, keys, values and outputs, and what is done to queries, keys and scores."""

    position: QueriesKeysPosition | RelativePosition | None
    """None also if all layers share one position, which is then `shared`"""

    def __init__(self, config: HeadSettings, layer: Layer) -> None:
        super().__init__()
        self.dim = layer.dim
        self.heads = config.heads
        self.kv_heads = config.kv_heads or config.heads
        self.width = config.head_width(layer.dim)
        self.config = config
        self.sizes = [self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width]
        """rows of W_q, W_k and W_v"""
        self.w_qkv = Linear(self.dim, sum(self.sizes), bias=config.bias in ("qkv", "all"))
        self.w_out = Linear(self.sizes[0], self.dim, bias=config.bias in ("out", "all"))
        self.norm_q: RMSNorm | None = None
        self.norm_k: RMSNorm | None = None
        if config.qk_norm == "heads":
            self.norm_q, self.norm_k = (RMSNorm(self.width, eps=config.qk_norm_eps) for _ in range(2))
        elif config.qk_norm == "all":
            self.norm_q, self.norm_k = (RMSNorm(size, eps=config.qk_norm_eps) for size in self.sizes[:2])
        biased = self.w_qkv.bias is not None
        self.w_gate = Linear(self.dim, self.sizes[0], bias=biased) if config.output_gate else None
        self.sinks = nn.Parameter(torch.zeros(self.heads)) if config.sinks else None
        self.taps = nn.Parameter(torch.empty(config.kernel, sum(self.sizes))) if config.kernel > 1 else None
        self._draw_taps()
        position = config.effective_position(layer.position)
        built = None if position is None or position.shared else position.build(*config.sizes(layer))
        assert built is None or isinstance(built, (QueriesKeysPosition, RelativePosition))  # `places` allows no other
        self.position = built
        self.relative = position is not None and not isinstance(built, QueriesKeysPosition)
        has_decay = isinstance(built, QueriesKeysPosition) and built.decay is not None
        self.plain = config.plain and not self.relative and not has_decay
        """whether scores are q_i · k_j / √K and nothing else"""

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        if self.sinks is not None:
            nn.init.zeros_(self.sinks)
        self._draw_taps()

    @override
    def rebuild(self) -> None:
        if self.position is not None:
            self.position.rebuild(self.device)

    @property
    @override
    def parts(self) -> list[nn.Module]:
        """The parts whose prices `Mixer` adds; those of norms and of a relative position are in `price_with`."""
        priced_together = (self.position if self.relative else None, self.norm_q, self.norm_k)
        return [part for part in super().parts if all(part is not other for other in priced_together)]

    def project(self, x: Stream, tokens_before: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys and values (B, G, T, K) of tokens that follow `tokens_before` (B,); None is 0.

        Without the convolution, for which see `project_and_convolve`.
        """
        if x.shape[1] == 1:
            return self._by_head(self.w_qkv(x).split(self.sizes, -1), tokens_before)
        # three products: slices of a single one would not be contiguous
        weights = self.w_qkv.weight.split(self.sizes)
        biases = [None] * 3 if self.w_qkv.bias is None else self.w_qkv.bias.split(self.sizes)
        return self._by_head([project(x, w, b) for w, b in zip(weights, biases, strict=True)], tokens_before)

    def project_and_convolve(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, reuse: bool = False
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Entries]:
        """Queries, keys and values as in `project`, convolved if there is a convolution, and its last inputs."""
        tokens_before = state["length"] if state else None
        if self.taps is None:
            return self.project(x, tokens_before), {}
        products, past = window.carry(self.w_qkv(x), self.taps, state, "past", lengths, reuse)
        return self._by_head(products.split(self.sizes, -1), tokens_before), past

    def _by_head(self, products: Sequence[Tensor], tokens_before: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys, values (B, heads, T, K) from products (B, T, ·) with W_q, W_k, W_v; normed, positioned."""
        q, k, v = (y.unflatten(-1, (-1, self.width)).transpose(1, 2) for y in products)
        q, k = self.normalize(q, k)
        if isinstance(self.position, QueriesKeysPosition):
            time = torch.arange(q.shape[2], device=q.device)
            q, k = self.position(q, k, time if tokens_before is None else tokens_before[:, None] + time)
        return q, k, v

    def normalize(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Queries (B, H, T, K) and keys (B, G, T, K) after their RMS norms: per head, over all heads, or none."""
        if self.norm_q is None or self.norm_k is None:
            return q, k
        if self.config.qk_norm == "heads":
            return self.norm_q(q), self.norm_k(k)
        return self._normed_together(q, self.norm_q), self._normed_together(k, self.norm_k)

    def change_scores(
        self, q: Tensor, behind: int, ahead: int = 0, alone: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        """The queries (B, H, T, K), and the arguments of `attend` that change scores.

        Keys are at most `behind` tokens before a query and `ahead` tokens after it; `alone` if there is one query.
        """
        if self.plain:
            return q, {}
        config = self.config
        changes: dict[str, Any] = {"scale": config.scale, "softcap": config.softcap, "sinks": self.sinks}
        if isinstance(self.position, QueriesKeysPosition):
            return q, {**changes, "decay": self.position.decay}
        if not self.relative:
            return q, changes
        relative = cast(RelativePosition, self.position or self.shared)
        relation: Relation = relative(behind, ahead, alone)
        if relation.values is not None:
            dtype = torch.promote_types(q.dtype, torch.float32)
            changes["bias"] = Bias(relation.values.to(dtype), relation.first)
        q = q if relation.query is None else q + relation.query.to(q.dtype)
        return q, {**changes, "score_change": relation.score_change, "value_change": relation.value_change}

    def out(self, y: Tensor, x: Stream) -> Stream:
        """The output for x (B, T, D) from the heads' outputs y (B, H, T, K)."""
        y = y.transpose(1, 2).flatten(2)
        out: Tensor = self.w_out(y if self.w_gate is None else y * torch.sigmoid(self.w_gate(x)))
        return out

    @torch.no_grad()
    def _draw_taps(self) -> None:
        """Uniform in ±W^(-1/2), as torch's Conv1d."""
        if self.taps is not None:
            nn.init.uniform_(self.taps, -(len(self.taps) ** -0.5), len(self.taps) ** -0.5)

    def _normed_together(self, x: Tensor, norm: RMSNorm) -> Tensor:
        """x (B, H, T, K) over the root mean square of all heads of a token."""
        together: Tensor = norm(x.transpose(1, 2).flatten(2))
        return together.unflatten(-1, (-1, self.width)).transpose(1, 2)

    def price_with(self, span: Span, terms: int, distances: int) -> Iterable[Cost | nn.Module | None]:
        """The chain of prices for `terms` pairs of queries and keys in all, at `distances` different distances."""
        config, rows = self.config, span.rows
        norm_cost = None
        if config.qk_norm == "heads":
            norm_cost = rootnorm(rows * self.heads, self.width) + rootnorm(rows * self.kv_heads, self.width).parallel()
        elif config.qk_norm == "all":
            norm_cost = rootnorm(rows, self.sizes[0]) + rootnorm(rows, self.sizes[1]).parallel()
        position: Cost | nn.Module | None = self.position
        decay_cost, has_bias = None, False
        if self.relative:
            relative = cast(RelativePosition, self.position or self.shared)
            position = relative.price(span, terms, distances)
            with torch.no_grad():
                has_bias = relative(0, 0, True).values is not None
        elif isinstance(self.position, QueriesKeysPosition) and self.position.decay is not None:
            decay_cost = decay_price(rows, self.width, self.heads + self.kv_heads)
        changes: dict[str, Any] = {"scale": config.scale, "softcap": config.softcap is not None, "sinks": config.sinks}
        scores = price(rows, terms, self.sizes[0], self.heads, bias=has_bias, **changes)
        gate_cost = gate(rows * self.sizes[0]) if config.output_gate else None
        convolution_cost = None if self.taps is None else taps.price(span, sum(self.sizes), config.kernel)
        return self.w_qkv, convolution_cost, norm_cost, position, decay_cost, scores, gate_cost, self.w_out
