"""RWKV-7's later layers, which mix the first layer's values in, and what its parameters begin with.

RWKV-7's time mixing as the paper's recurrence over matrices S (values × keys).

    z_t = x_t + μ_z ⊙ (x_{t-1} - x_t),  x_0 = 0, z of r, w, k, v, a, g
    w = exp(-e^{-1/2} σ(w_0 + tanh(z_w W_1) W_2)),   a = σ(a_0 + z_a A_1 A_2),   g = σ(z_g G_1) G_2
    v ← v + (v_first - v) ⊙ σ(v_0 + z_v V_1 V_2)                               where v_first is given
    κ = k ⊙ ξ,  κ̂ = κ / ‖κ‖ per head,  k̃ = k ⊙ (1 + (a - 1) ⊙ α)
    S_t = S_{t-1} (diag(w_t) - κ̂_tᵀ (a_t ⊙ κ̂_t)) + v_tᵀ k̃_t,   p = GN(S_t r_t) + (r_t · (ρ ⊙ k̃_t)) v_t
    out = (g ⊙ p) W_o                                                           GN per head, ε = 1e-5 · head width

Source: Peng et al., arXiv:2503.14456, section 4; the normalization's ε from RWKV-LM.
"""

import math

import numpy as np
import pytest
import torch

from seqloom.mixers import mixer_config
from seqloom.mixers.cross_layer import CrossLayerMixer
from tests.mixers.equation import Case, check_equation, paper_weights
from tests.mixers.recurrences.activations import each
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid

D = 8


def built(layer: int) -> CrossLayerMixer:
    mixer = mixer_config({"kind": "rwkv7", "heads": 2}).build(D, None, layer=layer, depth=3).double()
    assert isinstance(mixer, CrossLayerMixer)
    torch.manual_seed(layer)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return mixer


@torch.no_grad()
def test_the_second_layer_mixes_the_values_of_the_first() -> None:
    first, second = built(0), built(1)
    x, y = (torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 9, D))) for seed in (0, 1))
    _, handed = first.forward_cross_layer(x, None, {})
    actual, given = second.forward_cross_layer(y, None, handed)
    assert given == handed
    earlier = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    values = (x + first.mu[3] * (earlier - x)) @ first.w_v.weight.T
    torch.testing.assert_close(handed["values"], values)
    expected = rwkv7(y[0].numpy(), paper_weights(second, LETTERS), 2, values[0].numpy())
    np.testing.assert_allclose(actual[0].numpy(), expected, rtol=0, atol=1e-10)
    state, tokens = second.start(1), []
    for t in range(9):
        token, state, _ = second.step_cross_layer(y[:, t], state, False, {"values": values[:, t]})
        tokens.append(token)
    torch.testing.assert_close(torch.stack(tokens, 1), actual, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("layer", "depth"), [(0, 1), (0, 12), (5, 12), (11, 12)])
def test_it_is_initialized_as_the_authors_program(layer: int, depth: int) -> None:
    """RWKV-v7/train_temp/src/model.py of github.com/BlinkDL/RWKV-LM, channel by channel."""
    C, N = 128, 64
    mixer = mixer_config({"kind": "rwkv7", "heads": C // N}).build(C, None, layer=layer, depth=depth)
    actual = {name: tensor.double() for name, tensor in mixer.state_dict().items()}
    through, left = layer / max(depth - 1, 1), 1 - layer / depth
    for c in (0, 1, 63, 64, 100, 127):
        u = (c % N - (N - 1) / 2) / ((N - 1) / 2)
        zigzag, linear = u * abs(u), c / (C - 1) - 0.5
        expected = {
            "thin_out.decay.bias": -6 + 6 * (c / (C - 1)) ** (1 + through**0.3) + 0.5 + 2.5 * zigzag,
            "thin_out.rate.bias": -0.19 + 0.3 * zigzag + 0.4 * linear,
            "erased": 0.71 - 0.1 * linear,
            "replaced": 1.02,
            "gain": ((1 + layer) / depth) ** 0.7,
            "shift": 0.0,
        }
        if layer:
            expected["thin_out.value.bias"] = 0.73 - 0.4 * linear
        for name, value in expected.items():
            assert float(actual[name][c]) == pytest.approx(value, abs=1e-5), name
        exponents = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)
        for row, exponent in zip(actual["mu"], exponents, strict=True):
            assert float(row[c]) == pytest.approx(1 - (c / C) ** (exponent * left), abs=1e-5)
    for name in ("decay", "rate", "gate"):
        assert not actual[f"thin_in.{name}.weight"].any()
        out = actual[f"thin_out.{name}.weight"]
        torch.testing.assert_close(out.T @ out, 0.01 * torch.eye(out.shape[1]).double(), rtol=0, atol=1e-6)
    assert torch.equal(actual["bonus"], torch.full((C // N, N), -0.04).double())
    for name, scale in (("w_r", 1.0), ("w_k", 0.1), ("w_v", 1.0)):
        weight = actual[f"{name}.weight"]
        torch.testing.assert_close(weight.T @ weight, scale**2 * torch.eye(C).double(), rtol=0, atol=1e-5)


def rwkv7(x: Array, w: Weights, heads: int, v_first: Array | None = None) -> Array:
    """x (T, D) -> (T, D)."""
    before = np.vstack([np.zeros(x.shape[1]), x[:-1]])
    z = dict(zip("rwkvag", (x + mu * (before - x) for mu in w["mu"]), strict=True))
    r, k, v = (projected(z[name], w[f"w_{name}"]) for name in "rkv")
    decay = projected(each(math.tanh, projected(z["w"], w["decay_in"])), w["decay_out"]) + w["w_0"]
    decay = np.exp(-math.exp(-0.5) * each(sigmoid, decay))
    a = each(sigmoid, projected(projected(z["a"], w["rate_in"]), w["rate_out"]) + w["a_0"])
    g = projected(each(sigmoid, projected(z["g"], w["gate_in"])), w["gate_out"])
    if v_first is not None:
        share = each(sigmoid, projected(projected(z["v"], w["value_in"]), w["value_out"]) + w["v_0"])
        v = v + (v_first - v) * share
    kappa, k = k * w["xi"], k * (1 + (a - 1) * w["alpha"])
    K, y = x.shape[1] // heads, np.zeros_like(x)
    for h in range(heads):
        S, part = np.zeros((K, K)), slice(h * K, (h + 1) * K)
        for t in range(len(x)):
            unit = kappa[t, part] / math.sqrt(sum(number**2 for number in kappa[t, part]))
            S = S @ (np.diag(decay[t, part]) - np.outer(unit, a[t, part] * unit)) + np.outer(v[t, part], k[t, part])
            read = S @ r[t, part]
            normed = (read - read.mean()) / math.sqrt(read.var() + 1e-5 * K)
            bonus = sum(r[t, part] * w["rho"][h] * k[t, part]) * v[t, part]
            y[t, part] = normed * w["gain"][part] + w["shift"][part] + bonus
    return out(g * y, w)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in "rkv"},
    **{"w_o.weight": "w_out", "mu": "mu", "erased": "xi", "replaced": "alpha", "bonus": "rho"},
    **{f"thin_{end}.{name}.weight": f"{name}_{end}" for end in ("in", "out") for name in ("decay", "rate", "gate")},
    **{"thin_out.decay.bias": "w_0", "thin_out.rate.bias": "a_0", "gain": "gain", "shift": "shift"},
    **{"thin_in.value.weight": "value_in", "thin_out.value.weight": "value_out", "thin_out.value.bias": "v_0"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "rwkv7": ({"kind": "rwkv7", "heads": 2}, lambda x, w: rwkv7(x, w, 2)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_rwkv7_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
