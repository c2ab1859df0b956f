"""The gated delta rule as a recurrence over matrices S (V, K), as the paper writes it; without a gate, and by channel.

    S_t = S_{t-1} (α_t (I - β_t k_t k_tᵀ)) + β_t v_t k_tᵀ,   o_t = S_t q_t / √K                        Eq. 10
    q, k, v = silu(conv(x W)),  q and k over their length,  α = exp(-A softplus(x W_a + b_a)),  β = c σ(x W_b)
    out = (o / √(mean of o² + ε) ∘ gain ∘ silu(x W_g)) W_o
    DeltaNet: α = 1, no gate.   KDA: α a vector over the keys' channels, S_{t-1} diag(α_t) (I - β_t k_t k_tᵀ); gate σ
    Gated DeltaNet-2, as its paper has it, S (K, V): S_t = (I - k_t (b_t ∘ k_t)ᵀ) diag(α_t) S_{t-1} + k_t (w_t ∘ v_t)ᵀ
    DeltaProduct, S (K, V): A_t = ∏_{j=n…1} (I - β_j k_j k_jᵀ), B_t = Σ_j (∏_{l=n…j+1} (I - β_l k_l k_lᵀ)) β_j k_j v_jᵀ,
    S_t = α_t A_t S_{t-1} + B_t

Source: Yang et al., arXiv:2412.06464, section 3.1; A and b_a as in flash-linear-attention; arXiv:2406.06484; Kimi
Team, arXiv:2510.26692, Eq. 1; Hatamizadeh et al., arXiv:2605.22791; Siems et al., arXiv:2502.10297, section 4.
"""

import math

import numpy as np

from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, projected
from tests.mixers.recurrences.mamba import convolved


def unit(x: Array) -> Array:
    return x / math.sqrt(sum(number**2 for number in x) + 1e-6)


def delta_rule(q: Array, k: Array, v: Array, alpha: Array, beta: Array) -> Array:
    """One head: q, k (T, K), v (T, V), alpha (T, K) of each channel of the keys, beta (T,)."""
    T, K = q.shape
    S, y = np.zeros((v.shape[1], K)), np.zeros_like(v)
    for t in range(T):
        moved = np.diag(alpha[t]) @ (np.eye(K) - beta[t] * np.outer(k[t], k[t]))
        S = S @ moved + beta[t] * np.outer(v[t], k[t])
        y[t] = S @ q[t] / math.sqrt(K)
    return y


def normed(y: Array, gain: Array, eps: float) -> Array:
    return np.stack([row / math.sqrt(sum(number**2 for number in row) / len(row) + eps) * gain for row in y])


def of_equal_widths(x: Array, w: Weights, h: int, heads: int) -> tuple[Array, Array, Array, slice]:
    """q, k and v of one head, where all three are D wide; and the head's channels."""
    made = projected(x, w["w_qkv"])
    made, D = each(silu, convolved(made, w["taps"].T, np.zeros(made.shape[1]))), x.shape[1]
    part = slice(h * D // heads, (h + 1) * D // heads)
    q, k = (np.stack([unit(row) for row in made[:, at + part.start : at + part.stop]]) for at in (0, D))
    return q, k, made[:, 2 * D :][:, part], part
