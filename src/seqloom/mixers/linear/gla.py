"""Gated linear attention: a matrix state in which each channel of the keys decays at a rate computed from the token.

    q = x W_q / √K,   k = x W_k,   v = x W_v            H heads; q and k of width K = D/2H, v of width D/H; no biases
    g = log σ(x W_1 W_2 + b) / τ                        per channel of the keys; W_1 W_2 of rank R, τ = 16
    S_t = diag(e^{g_t}) S_{t-1} + k_tᵀ v_t,   y_t = q_t S_t                per head
    out = (norm(y) ∘ silu(x W_g)) W_o                   norm(y) = y / √(mean of y² + ε) ∘ gain, per head

Source: Yang et al., Gated Linear Attention Transformers with Hardware-Efficient Training, arXiv:2312.06635, section 4,
and the authors' flash-linear-attention, which this computes. The paper norms by mean and variance and has a bias in the
output gate; the program has neither, and one gain for all heads.
"""

from collections.abc import Iterable
from typing import ClassVar, Literal, final

from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.head_norm import HeadNorm
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.linear_decay import decay
from seqloom.ops.linear_decay.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class GLA(PackedMixer):
    """Gated linear attention over `dim` channels. State: the sum S (B, H, K, V)."""

    traits = TRAITS

    def __init__(self, dim: int, heads: int, rank: int, tau: float, norm_eps: float) -> None:
        super().__init__()
        if dim % (2 * heads):
            raise ValueError(f"dim {dim} does not give {heads} heads keys of D/2: choose heads that divide {dim}/2")
        self.dim, self.heads, self.tau = dim, heads, tau
        self.w_q, self.w_k = (Linear(dim, dim // 2, bias=False) for _ in range(2))
        self.w_v, self.w_g, self.w_o = (Linear(dim, dim, bias=False) for _ in range(3))
        self.w_1, self.w_2 = Linear(dim, rank, bias=False), Linear(rank, dim // 2)
        self.norm = HeadNorm(heads, dim // heads, "silu", norm_eps)

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"sum": StateEntry((self.heads, self.dim // 2 // self.heads, self.dim // self.heads), "wide")}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        q = q / q.shape[-1] ** 0.5
        g = self._log_decay(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, T, K)
        y, new_state = decay(q, k, v, g, state["sum"] if state else None, lengths=lengths)
        return self.w_o(self.norm(y, self.w_g(x))), {"sum": new_state}

    @override
    def plots(self, x: Stream) -> list[View]:
        meaning = "how much of its channel of the state a key's channel keeps when a token is read"
        return [View("decay", meaning, ("token", "channel"), self._log_decay(x[0]).exp())]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, H, K = span.rows, self.heads, self.dim // 2 // self.heads
        n = rows * self.dim // 2
        rates = Cost(add=n, div=n, exp=n, other=n, path=("exponentiation", "addition", "division"))  # log σ(·) / τ
        scaled = Cost(div=n).parallel()
        sums = price(rows, H, K, 2 * K, "channel")
        return self.w_1, self.w_2, rates, scaled, sums, self.norm, self.w_o

    def _log_decay(self, x: Tensor) -> Tensor:
        """g (…, D/2) of tokens x (…, D)."""
        return logsigmoid(self.w_2(self.w_1(x))) / self.tau


@register
class GLAConfig(MixerConfig):
    """Gated linear attention. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["gla"] = "gla"
    heads: int = Field(4, ge=1, description="heads; divides dim / 2")
    rank: int = Field(16, ge=1, description="rank of the matrix that computes the decay")
    tau: float = Field(
        16.0, gt=0, description="divisor of the logarithm of the gate; above 1, the state decays more slowly"
    )
    norm_eps: float = Field(1e-5, gt=0, description="ε added to the mean square in each head's norm")
    later: ClassVar = ("norm_eps",)
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(
        128, "the norm of a head divides by the root of the mean square of its few channels, which may be near 0"
    )
    examples: ClassVar = ({"heads": 2, "rank": 3}, {"heads": 1}, {"heads": 4, "tau": 1.0})

    @override
    def make(self, layer: Layer) -> GLA:
        return GLA(layer.dim, self.heads, self.rank, self.tau, self.norm_eps)
