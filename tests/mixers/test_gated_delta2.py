"""Gated DeltaNet-2 is its paper's recurrence over matrices S (K, V).

    S_t = (I - k_t (b_t ∘ k_t)ᵀ) diag(α_t) S_{t-1} + k_t (w_t ∘ v_t)ᵀ

Source: Hatamizadeh et al., arXiv:2605.22791.
"""

import math

import numpy as np
import pytest
import torch

from seqloom.ops.delta_rule import delta
from tests.mixers.delta import DIM, built, inputs
from tests.mixers.equation import Case, check_equation
from tests.mixers.recurrences.activations import each, softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid
from tests.mixers.recurrences.delta_rule import normed, of_equal_widths


def gated_delta2(x: Array, w: Weights, heads: int, strongest: float) -> Array:
    """x (T, D) -> (T, D)."""
    erased, written = (each(sigmoid, projected(x, w[name])) for name in ("w_b", "w_w"))
    rates = each(softplus, projected(projected(x, w["decay_in"]), w["decay_out"]) + w["b_a"])
    gates, Y = each(sigmoid, projected(projected(x, w["gate_in"]), w["gate_out"]) + w.get("b_g", 0.0)), np.zeros_like(x)
    for h in range(heads):
        q, k, v, part = of_equal_widths(x, w, h, heads)
        K = k.shape[1]
        S, y = np.zeros((K, K)), np.zeros_like(v)
        for t in range(len(x)):
            alpha, b = np.exp(-math.exp(w["a_log"][h]) * rates[t, part]), strongest * erased[t, part]
            S = (np.eye(K) - np.outer(k[t], b * k[t])) @ np.diag(alpha) @ S + np.outer(k[t], written[t, part] * v[t])
            y[t] = S.T @ q[t] / math.sqrt(K)
        Y[:, part] = normed(y, w["gain"], 1e-5)
    return out(Y * gates, w)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "b", "w")},
    **{"conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out", "a_log": "a_log"},
    **{f"{name}_{end}.weight": f"{name}_{end}" for name in ("decay", "gate") for end in ("in", "out")},
    **{"decay_out.bias": "b_a", "gate_out.bias": "b_g"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "gated_delta2": ({"kind": "gated_delta2", "heads": 2, "rank": 3}, lambda x, w: gated_delta2(x, w, 2, 1.0)),
    "gated_delta2, negative": (
        {"kind": "gated_delta2", "heads": 1, "gate_bias": False, "negative": True},
        lambda x, w: gated_delta2(x, w, 1, 2.0),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_gated_delta2_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


def test_equal_gates_of_a_head_are_kda() -> None:
    """b = w = β where the columns of a head in W_b and W_w are those of β."""
    kda, two = built(kind="kda", heads=2), built(kind="gated_delta2", heads=2)
    weights = dict(kda.state_dict())
    weights["w_b.weight"] = weights["w_w.weight"] = weights["w_b.weight"].repeat_interleave(DIM // 2, 0)
    two.load_state_dict(weights)
    x = inputs()
    torch.testing.assert_close(two(x), kda(x), rtol=0, atol=1e-12)
    with torch.no_grad():
        two.get_parameter("w_w.weight")[0, 0] += 0.1
    assert (two(x) - kda(x)).abs().max() > 1e-4


@pytest.mark.parametrize(("chosen", "grows"), [(True, True), (False, False)], ids=["by channel", "by head"])
def test_erasing_by_channel_can_lengthen_a_state(chosen: bool, grows: bool) -> None:
    """Keys (1, 2)/√5 and (2, 1)/√5, of which the first and the second channel erase: 1.247 times in two tokens.

    The product of both matrices is [[0.96, -0.4], [-0.32, 0.8]]; with b = 1 no product of such matrices lengthens.
    """
    pairs, generator = 50, torch.Generator().manual_seed(0)
    k = (torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64) / 5**0.5).repeat(pairs, 1)[None, None]
    b = torch.eye(2, dtype=torch.float64).repeat(pairs, 1)[None, None] if chosen else torch.ones_like(k)
    before = torch.randn(1, 1, 2, 3, generator=generator, dtype=torch.float64)
    _, after = delta(torch.zeros_like(k), k, torch.zeros(1, 1, 2 * pairs, 3).double(), erase=b * k, state=before)
    growth = float(after.norm() / before.norm())
    assert (1.2**pairs < growth < 1.25**pairs) if grows else growth <= 1.0


@pytest.mark.parametrize(("most", "bound"), [(1.0, (4 / 3) ** 0.5), (2.0, 2**0.5)], ids=["b up to 1", "b up to 2"])
def test_how_much_longer_a_token_can_make_a_state(most: float, bound: float) -> None:
    """The norm of I - kᵀ(b ∘ k), with a = Σ b k² and Σ b²k² ≤ most·a, so σ₁² + σ₂² ≤ 2 - (2 - most) a and σ₁σ₂ = |1-a|.

    It is largest at a = 1/3 for b up to 1, and at a = 1 for b up to 2; both are reached by b = (most, 0).
    """
    generator = torch.Generator().manual_seed(0)
    k = torch.randn(2000, 4, generator=generator, dtype=torch.float64)
    k = k / k.norm(dim=-1, keepdim=True)
    b = most * torch.rand(2000, 4, generator=generator, dtype=torch.float64).round()
    first = (1 / 3 if most == 1 else 1 / 2) ** 0.5
    k[0] = torch.tensor([first, (1 - first**2) ** 0.5, 0, 0], dtype=torch.float64)
    b[0] = torch.tensor([most, 0, 0, 0], dtype=torch.float64)
    keys, strengths = k[:, None, None], b[:, None, None]  # one token for each state
    nothing, state = torch.zeros_like(keys), torch.eye(4, dtype=torch.float64).expand(2000, 1, 4, 4)
    _, after = delta(nothing, keys, nothing, erase=strengths * keys, state=state)
    norms = torch.linalg.matrix_norm(after[:, 0], 2)
    assert float(norms[0]) == pytest.approx(bound)
    assert float(norms.max()) <= bound * (1 + 1e-12)


def test_heads_of_gated_delta2_divide_dim() -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        built(kind="gated_delta2", heads=3)
