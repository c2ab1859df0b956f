"""RWKV-4's time mixing: an average over time that decays, channel by channel, at a learned rate.

    r = (x_{t-1} + μ_r (x_t - x_{t-1})) W_r,  likewise k (μ_k, W_k) and v (μ_v, W_v)           x_0 = 0; no biases
    a_t = (Σ_{j<t} e^{k_j - (t-1-j)w} v_j + e^{u+k_t} v_t) / (Σ_{j<t} e^{k_j - (t-1-j)w} + e^{u+k_t})   w = e^`log_rate`
    y = (σ(r) ∘ a) W_out

Before training, with l = `layer` and p = l / (`depth` - 1), which is 0 if there is one layer, channel c of D has
    ln w = -5 + 8 (c / (D-1))^(0.7 + 1.3 p),   u = ln 0.3 + ((c+1) mod 3 - 1) / 2
    μ_k = (c/D)^(1 - l/depth),   μ_v = μ_k + 0.3 p,   μ_r = (c/D)^((1 - l/depth) / 2)

Source: Peng et al., RWKV, arXiv:2305.13048, "Token Shift", "WKV Operator" and "Output Gating"; initialization from the
authors' code of RWKV-4. Their W_r, W_k and W_out are initialized to 0, ours like the model's other matrices; their p
fails at one layer. Seed 004 counts the distance twice, seed 001 takes it one too large and says that inference grows
with the sequence: the state is constant.
"""

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, Rounding, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.base import PackedMixer
from seqloom.ops.past import token_shift
from seqloom.ops.wkv_average import sums_of, wkv
from seqloom.ops.wkv_average.reference import price

TRAITS = Traits(causal="always", streams=True, state="constant")


@final
class RWKV(PackedMixer):
    """Time mixing over `dim` channels. State: the last token, the two sums of each channel, and their scale."""

    traits = TRAITS

    def __init__(self, dim: int, layer: int = 0, depth: int = 1) -> None:
        super().__init__()
        self.dim, self.layer, self.depth = dim, layer, depth
        self.w_r, self.w_k, self.w_v, self.w_out = (Linear(dim, dim, bias=False) for _ in range(4))
        self.mu_r, self.mu_k, self.mu_v, self.log_rate, self.bonus = (nn.Parameter(torch.empty(dim)) for _ in range(5))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        matrices = [project.weight for project in (self.w_r, self.w_k, self.w_v, self.w_out)]
        vectors = [self.mu_r, self.mu_k, self.mu_v, self.log_rate, self.bonus]  # 0 is not a neutral value of them
        return [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"last": StateEntry((self.dim,)), "sums": sums_of(self.dim)}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        earlier, last = token_shift.shift_tokens(x, state, lengths)
        r, k, v = self._project(x, earlier)
        a, sums = wkv(k, v, self.log_rate, self.bonus, state["sums"] if state else None, lengths=lengths)
        y = self.w_out(torch.sigmoid(r) * a)
        return y, {**last, "sums": sums}

    @override
    def plots(self, x: Stream) -> list[View]:
        lag = torch.arange(x.shape[1], device=x.device)[:, None]
        decayed = torch.where(lag > 0, (lag - 1).clamp(min=0) * -self.log_rate.exp(), self.bonus).exp()
        mu = torch.stack([self.mu_r, self.mu_k, self.mu_v])
        return [
            View(
                "decay",
                "what a key's weight is multiplied by at each lag; at lag 0 the bonus",
                ("lag", "channel"),
                decayed,
            ),
            View("token shift", "the part of the token itself in r, k and v, the rest is the one before", AXES, mu),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n = span.rows * self.dim
        shift = Cost(mul=3 * n, add=4 * n, path=("addition", "multiplication", "addition"))
        return shift, self.w_k, price(span, self.dim, forgets=True), gate(n), self.w_out

    @torch.no_grad()
    def _initialize(self) -> None:
        c, D = torch.arange(self.dim, device=self.device), self.dim
        p, exponent = self.layer / max(self.depth - 1, 1), 1 - self.layer / self.depth
        self.mu_r.copy_((c / D) ** (exponent / 2))
        self.mu_k.copy_((c / D) ** exponent)
        self.mu_v.copy_((c / D) ** exponent + 0.3 * p)
        self.log_rate.copy_(-5 + 8 * (c / max(D - 1, 1)) ** (0.7 + 1.3 * p))
        self.bonus.copy_(math.log(0.3) + ((c + 1) % 3 - 1) / 2)

    def _project(self, x: Tensor, earlier: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """r, k and v (B, T, D) of tokens x, from them and the tokens before them."""
        change = x - earlier
        r, k, v = (
            project(torch.addcmul(earlier, change, mu))
            for project, mu in ((self.w_r, self.mu_r), (self.w_k, self.mu_k), (self.w_v, self.mu_v))
        )
        return r, k, v


AXES = ("projection", "channel")


@register
class RWKVConfig(MixerConfig):
    """RWKV-4's time mixing. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["rwkv"] = "rwkv"
    traits: ClassVar = TRAITS
    rounding: ClassVar = Rounding(400, "a running sum and its normaliser are rounded at each of 4,096 tokens")

    @override
    def make(self, layer: Layer) -> RWKV:
        return RWKV(layer.dim, layer.number, layer.depth)
