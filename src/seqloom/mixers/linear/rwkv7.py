"""RWKV-7's time mixing: a matrix state that decays per channel; a token erases at one key and writes at another.

    z̃ = x_t + (x_{t-1} - x_t) ∘ μ_z  for z of r, w, k, v, a, g                   x_0 = 0
    r = r̃ W_r,   k = k̃ W_k,   v = ṽ W_v                                          D wide, H heads of width K
    log w = -e^{-1/2} σ(w₀ + tanh(w̃ W₁) W₂),   a = σ(a₀ + ã A₁ A₂),   g = σ(g̃ G₁) G₂
    v ← v + (v of the first layer - v) ∘ σ(v₀ + ṽ V₁ V₂)                          from the second layer on
    κ̂ = (k ∘ ξ) / |k ∘ ξ| per head,   k ← k ∘ (1 + (a - 1) ∘ α)
    S_t = diag(w_t) S_{t-1} - (a_t ∘ κ̂_t)ᵀ (κ̂_t S_{t-1}) + k_tᵀ v_t,   y_t = r_t S_t                per head
    out = ((GN(y) + (r · (ρ ∘ k)) v) ∘ g) W_o                GN: mean and variance of each head, ε = K·1e-5, gain, bias

Before training, with l of L layers, p = l/(L-1), c/D the channel, s = c/(D-1) - ½ and z = u|u|, u from -1 to 1:
    μ = 1 - (c/D)^(e (1-l/L)),  e = 0.2 for r and g, 0.7 for k and v, 0.9 for w and a
    w₀ = -5.5 + 6 (c/(D-1))^(1+p^0.3) + 2.5z,   a₀ = -0.19 + 0.3z + 0.4s,   v₀ = 0.73 - 0.4s
    ξ = 0.71 - 0.1s,   α = 1.02,   ρ = -0.04;   W₁, A₁, V₁, G₁ = 0;   W₂, A₂, V₂, G₂ orthogonal, times 0.1
    W_r, W_v orthogonal,   W_k orthogonal, times 0.1;   gain of GN = ((1+l)/L)^0.7

Only W_r, W_k, W_v and W_o are decayed.

Source: Peng et al., RWKV-7, arXiv:2503.14456, section 4, whose S is transposed; initialization from the authors'
`train_temp` (its `generate_init_weight` last). W_o is initialized like the model's other matrices (theirs 0), w₀ has no
learning rate of its own (theirs is twice the others'), and W₁, A₁, V₁ and G₁ have the ranks of earlier versions.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, cast, final

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm
from typing_extensions import override

from seqloom.core.cost import Cost, Span, layernorm, sigmoid
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.cross_layer import CrossLayerMixer, CrossLayerTensors
from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.keys import direction, direction_price
from seqloom.ops.delta_rule.reference import price
from seqloom.ops.past import token_shift

TRAITS = Traits(causal="always", streams=True, state="constant")
SHIFTS = {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}
"""the inputs that are token-shifted, in the order of the rows of μ, and the exponent e of their initial μ"""


@final
class RWKV7(CrossLayerMixer):
    """Time mixing over `dim` channels. State: the last token, and S (B, H, K, K). Layer 0 hands its values on."""

    traits = TRAITS

    def __init__(self, config: "RWKV7Config", layer: Layer) -> None:
        super().__init__()
        D, H = layer.dim, config.heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}")
        self.dim, self.heads, self.K, self.layer, self.depth = D, H, D // H, layer.number, layer.depth
        self.mu = nn.Parameter(torch.empty(len(SHIFTS), D))
        self.w_r, self.w_k, self.w_v, self.w_o = (Linear(D, D, bias=False) for _ in range(4))
        ranks = config.ranks(D)
        if not layer.number:
            del ranks["value"]
        self.thin_in = nn.ModuleDict({name: Linear(D, rank, bias=False) for name, rank in ranks.items()})
        self.thin_out = nn.ModuleDict({name: Linear(rank, D, bias=name != "gate") for name, rank in ranks.items()})
        self.erased, self.replaced, self.gain, self.shift = (nn.Parameter(torch.empty(D)) for _ in range(4))
        self.bonus = nn.Parameter(torch.empty(H, self.K))
        self._initialize()

    @override
    def reset(self, std: float) -> None:
        """Initializes all but W_o as above."""
        super().reset(std)
        self._initialize()

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        matrices = [projection.weight for projection in (self.w_r, self.w_k, self.w_v, self.w_o)]
        others = [parameter for parameter in self.parameters() if all(parameter is not matrix for matrix in matrices)]
        return [{"params": matrices}, {"params": others, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"last": StateEntry((self.dim,)), "S": StateEntry((self.heads, self.K, self.K), "wide")}

    @override
    def mix_cross_layer(
        self, x: Stream, cross_layer: CrossLayerTensors, state: State | None = None, lengths: Lengths | None = None
    ) -> tuple[Stream, Entries, CrossLayerTensors]:
        shifted, last = self._shift_inputs(x, state, lengths)
        r, k, v = self.w_r(shifted["r"]), self.w_k(shifted["k"]), self.w_v(shifted["v"])
        g, a = self._log_decay(shifted["w"]), self._rate(shifted["a"])
        if self.layer:
            v = torch.lerp(v, cross_layer.get("values", v), torch.sigmoid(self._thin("value", shifted["v"])))
        else:
            cross_layer = {**cross_layer, "values": v}
        kappa = direction((k * self.erased).unflatten(-1, (self.heads, self.K)))
        k = k * (1 + (a - 1) * self.replaced)
        r, g, k, v, a = (tensor.unflatten(-1, (self.heads, self.K)) for tensor in (r, g, k, v, a))  # (B, T, H, K)
        queries, keys, values, erase, write, decay = (
            tensor.transpose(1, 2) for tensor in (r, k, v, kappa, a * kappa, g)
        )
        old_state = state["S"] if state else None
        y, S = delta(queries, keys, values, erase=erase, write=write, log_decay=decay, state=old_state, lengths=lengths)
        normed = layer_norm(y, (self.K,), eps=self.K * 1e-5).transpose(1, 2).flatten(2) * self.gain + self.shift
        bonus = (r * k * self.bonus).sum(-1, keepdim=True) * v
        gate = self._thin("gate", shifted["g"], torch.sigmoid)
        return self.w_o((normed + bonus.flatten(2)) * gate), {**last, "S": S}, cross_layer

    @override
    def plots(self, x: Stream) -> list[View]:
        shifted, _ = self._shift_inputs(x[:1])
        g, a = self._log_decay(shifted["w"])[0], self._rate(shifted["a"])[0]
        axes = ("token", "channel")
        return [
            View("decay", "how much of its channel of the state a token leaves", axes, g.exp()),
            View("rate", "how much of what a key reads is replaced: a", axes, a),
            View(
                "token shift", "the part of the token before in what is projected", ("projection", "channel"), self.mu
            ),
        ]

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        rows, n, H, K = span.rows, span.rows * self.dim, self.heads, self.K
        shift = Cost(mul=6 * n, add=7 * n, path=("addition", "multiplication", "addition"))
        hidden = {name: rows * self._factors(name)[0].out_features for name in self.thin_in}
        t = hidden["decay"]
        activations = Cost(mul=t, add=2 * t, div=t, exp=t).parallel() + sigmoid(hidden["gate"]).parallel()
        rates = 2 * sigmoid(n) + Cost(mul=n)
        values = (sigmoid(n) + Cost(mul=n, add=2 * n)).parallel() if self.layer else Cost()
        keys = Cost(mul=4 * n, add=2 * n).parallel() + direction_price(rows * H, K)
        rule = price(rows, H, K, K, "channel", write=True)
        norm = layernorm(rows * H, K, gain=False, bias=False) + Cost(mul=n, add=n, path=("multiplication", "addition"))
        bonus = Cost(mul=3 * n, add=n - rows * H).parallel()
        gated = Cost(mul=n, add=n, path=("addition", "multiplication"))
        decay = (self.thin_in["decay"], activations, self.thin_out["decay"], rates)
        return shift, *decay, values, keys, rule, norm, bonus, gated, self.w_o

    def _shift_inputs(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None
    ) -> tuple[dict[str, Stream], Entries]:
        """r̃, w̃, k̃, ṽ, ã and g̃ (B, T, D) by name, and the entry of the last token."""
        earlier, last = token_shift.shift_tokens(x, state, lengths)
        change = earlier - x
        return {name: torch.addcmul(x, change, mu) for name, mu in zip(SHIFTS, self.mu, strict=True)}, last

    def _log_decay(self, shifted: Tensor) -> Tensor:
        """log w (…, D), from w̃."""
        return -math.exp(-0.5) * torch.sigmoid(self._thin("decay", shifted, torch.tanh))

    def _rate(self, shifted: Tensor) -> Tensor:
        """a (…, D), from ã."""
        return torch.sigmoid(self._thin("rate", shifted))

    def _thin(self, name: str, x: Tensor, activation: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """x (…, D) times a matrix of low rank, with an activation between its two factors."""
        hidden = self.thin_in[name](x)
        product: Tensor = self.thin_out[name](hidden if activation is None else activation(hidden))
        return product

    def _factors(self, name: str) -> tuple[Linear, Linear]:
        """The two factors of a matrix of low rank."""
        return cast(Linear, self.thin_in[name]), cast(Linear, self.thin_out[name])

    @torch.no_grad()
    def _initialize(self) -> None:
        # the letters are those of the equations above
        D, p = self.dim, self.layer / max(self.depth - 1, 1)
        c = torch.arange(D, device=self.device, dtype=torch.float64)
        for mu, e in zip(self.mu, SHIFTS.values(), strict=True):
            mu.copy_(1 - (c / D) ** (e * (1 - self.layer / self.depth)))
        share = c / max(D - 1, 1)
        s = share - 0.5
        u = (c % self.K) / max(self.K - 1, 1) * 2 - 1
        z = u * u.abs()
        biases = {"decay": 6 * share ** (1 + p**0.3) - 5.5 + 2.5 * z}
        biases |= {"rate": 0.3 * z + 0.4 * s - 0.19, "value": 0.73 - 0.4 * s}
        for name in self.thin_in:
            first, second = self._factors(name)
            nn.init.zeros_(first.weight)
            nn.init.orthogonal_(second.weight, gain=0.1 * math.sqrt(max(second.in_features / D, 1.0)))
            if name in biases:
                second.bias.copy_(biases[name])
        for projection, scale in ((self.w_r, 1.0), (self.w_k, 0.1), (self.w_v, 1.0)):
            nn.init.orthogonal_(projection.weight, gain=scale)
        self.erased.copy_(0.71 - 0.1 * s)
        self.gain.fill_(((1 + self.layer) / self.depth) ** 0.7)
        for parameter, value in ((self.replaced, 1.02), (self.bonus, -0.04), (self.shift, 0.0)):
            parameter.fill_(value)


def _rank(suggested: float) -> int:
    """A rank as a multiple of 32, as the authors suggest."""
    return max(32, round(suggested / 32) * 32)


@register
class RWKV7Config(MixerConfig):
    """RWKV-7's time mixing. It reads all earlier tokens; the context only sizes the model's positions."""

    kind: Literal["rwkv7"] = "rwkv7"
    heads: int = Field(4, ge=1, description="heads; divides dim")
    decay_rank: int = Field(0, ge=0, description="rank of W₁ W₂, the matrix of the decay; 0 for 1.8 √dim")
    rate_rank: int = Field(0, ge=0, description="rank of A₁ A₂, the matrix of the rate; 0 for 1.8 √dim")
    value_rank: int = Field(0, ge=0, description="rank of V₁ V₂, the matrix of the values' share; 0 for 1.3 √dim")
    gate_rank: int = Field(0, ge=0, description="rank of G₁ G₂, the matrix of the gate; 0 for 0.6 dim^0.8")
    later: ClassVar = ("decay_rank", "rate_rank", "value_rank", "gate_rank")
    traits: ClassVar = TRAITS
    examples: ClassVar = ({"heads": 2}, {"heads": 1})

    def ranks(self, dim: int) -> dict[str, int]:
        """The ranks of the thin matrices by name; multiples of 32, as the authors suggest, where they are not set."""
        root = dim**0.5
        return {
            "decay": self.decay_rank or _rank(1.8 * root),
            "rate": self.rate_rank or _rank(1.8 * root),
            "gate": self.gate_rank or _rank(0.6 * dim**0.8),
            "value": self.value_rank or _rank(1.3 * root),
        }

    @override
    def distinct(self, depth: int) -> int:
        return min(2, depth)  # the first layer mixes no values in

    @override
    def make(self, layer: Layer) -> RWKV7:
        return RWKV7(self, layer)
