"""Cross-attention: each token of a target looks at all tokens of a source, by products or by a small network.

    q_i = x_i W_q,   k_j = s_j W_k,   v_j = s_j W_v       x: the target's stream (B, T, D), s: the source's (B, S, D)
    z_ij = q_i · k_j / √K                                 attention; H heads of width K = D/H
    z_ij = w · tanh(q_i + k_j)                            additive; w: K numbers per head
    a_ij = e^{z_ij} / Σ_j' e^{z_ij'},   out_i = concat_h(Σ_j a_ij v_j) W_out

j runs over the source's tokens that are kept. Keys and values are projected once: a state holds them, and no step
changes them. `bias` adds one to each of the four products, `scale` stands in place of 1/√K.

Source: Vaswani et al., arXiv:1706.03762, section 3.2.3; additive: Bahdanau et al., arXiv:1409.0473, Appendix A.1.2,
with one head and without W_v and W_out there.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Literal, final

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.config import Config
from seqloom.core.cost import Cost, Span
from seqloom.core.parts import part_price
from seqloom.core.shapes import Keep, Stream
from seqloom.core.state import State
from seqloom.layers.linear import Linear
from seqloom.ops.attention import attend, everywhere
from seqloom.ops.attention.additive import additive
from seqloom.ops.attention.additive.reference import price as additive_price
from seqloom.ops.attention.reference import price as attention_price


@final
class CrossConfig(Config):
    """How the decoder looks at the encoder's stream."""

    kind: Literal["attention", "additive"] = Field(
        "attention", description="scores by dot products, or by a tanh layer (Bahdanau)"
    )
    heads: int = Field(4, ge=1, description="heads; divides dim")
    bias: bool = Field(False, description="whether the four projections have biases")
    scale: float | None = Field(None, gt=0, description="factor of the scores of attention; unset: 1/√K")

    @model_validator(mode="after")
    def _check_use(self) -> "CrossConfig":
        if self.kind == "additive" and self.scale is not None:
            raise ValueError("scale is of kind=attention, and additive scores have none: leave it out")
        return self

    def build(self, dim: int) -> "CrossAttention":
        """The module for `dim` channels. ValueError where the heads do not divide them."""
        if dim % self.heads:
            raise ValueError(f"dim {dim} is not divisible by cross.heads={self.heads}: choose heads that divide dim")
        return DotProductCross(dim, self) if self.kind == "attention" else AdditiveCross(dim, self)


class CrossAttention(nn.Module, ABC):
    """The projections of both kinds."""

    def __init__(self, dim: int, config: CrossConfig) -> None:
        super().__init__()
        self.dim = dim
        self.heads = config.heads
        self.K = dim // config.heads
        self.scale = config.scale
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=config.bias) for _ in range(4))

    def init(self) -> None:
        """Initializes the parameters that are not in a linear layer; by default there are none."""

    def start(self, source: Stream, keep: Keep | None = None) -> State:
        """Keys and values (B, H, S, K) of a source's stream, and `time` (B, S): -1 where a token is dropped."""
        B, S = source.shape[:2]
        k, v = (w(source).unflatten(-1, (self.heads, self.K)).transpose(1, 2) for w in (self.w_k, self.w_v))
        time = torch.arange(S, device=source.device).expand(B, S)
        length = time.new_full((B,), S)
        if keep is not None:
            time = torch.where(keep, time, -1)
            length = keep.sum(1)
        return State({"k": k, "v": v, "time": time.contiguous(), "length": length}, S, keep is None)

    @override
    def forward(self, x: Stream, source: State) -> Stream:
        """What each position of x (B, T, D) reads of the source that `start` was given."""
        q = self.w_q(x).unflatten(-1, (self.heads, self.K)).transpose(1, 2)
        y: Tensor = self.w_out(self.read(q, source).transpose(1, 2).flatten(2))
        return y

    @abstractmethod
    def read(self, q: Float[Tensor, "B H T K"], source: State) -> Float[Tensor, "B H T K"]:
        """The weighted sums of values."""

    @abstractmethod
    def scoring_cost(self, rows: int, terms: int) -> Cost:
        """The price of scores, weights and sums, of `rows` queries over `terms` pairs per head."""

    def cost(self, T: int, span: Span, projected: bool = False) -> Cost:
        """The price for a source of T tokens, and a target of T tokens or one of them, as `span` says.

        Only a whole sequence pays for the projections of the source; with `projected`, where an earlier layer with the
        same weights has computed them, neither these nor parameters and state count. The state is keys and values.
        """
        chain = part_price(self.w_q, span) + self.scoring_cost(span.rows, span.rows * T) + part_price(self.w_out, span)
        if projected:
            return replace(chain, params=0, state=0)
        params = sum(parameter.numel() for parameter in self.parameters())
        source = Span(T if span.per == "sequence" else 0)
        projections = (part_price(self.w_k, source) + part_price(self.w_v, source)).parallel()
        return replace(chain + projections, params=params, state=2 * T * self.dim + T)


@final
class DotProductCross(CrossAttention):
    """Multi-head attention."""

    @override
    def read(self, q: Float[Tensor, "B H T K"], source: State) -> Float[Tensor, "B H T K"]:
        k, v = (source[name].to(q.dtype) for name in ("k", "v"))
        return attend(q, k, v, pattern=everywhere, key_time=source["time"], scale=self.scale)

    @override
    def scoring_cost(self, rows: int, terms: int) -> Cost:
        return attention_price(rows, terms, self.dim, self.heads, scale=self.scale)


@final
class AdditiveCross(CrossAttention):
    """Additive attention, whose network has the weights w (H, K)."""

    def __init__(self, dim: int, config: CrossConfig) -> None:
        super().__init__(dim, config)
        self.w = nn.Parameter(torch.empty(self.heads, self.K))
        self.init()

    @override
    @torch.no_grad()
    def init(self) -> None:
        nn.init.normal_(self.w, std=self.K**-0.5)

    @override
    def read(self, q: Float[Tensor, "B H T K"], source: State) -> Float[Tensor, "B H T K"]:
        k, v = (source[name].to(q.dtype) for name in ("k", "v"))
        return additive(q, k, v, self.w, causal=False, key_time=source["time"])

    @override
    def scoring_cost(self, rows: int, terms: int) -> Cost:
        return additive_price(rows, terms, self.dim, self.heads)
