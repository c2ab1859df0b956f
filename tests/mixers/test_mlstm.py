"""mLSTM against the authors' program (xlstm 2.0.6, backend vanilla), and gates beyond the range of float32.

mLSTM's cell as a sum over all earlier tokens, unscaled, and the block around it.

    C_t = Σ_{j≤t} p_tj v_j k_jᵀ,   n_t = Σ_{j≤t} p_tj k_j,   p_tj = f_{j+1} … f_t i_j
    h_t = C_t q_t / (max(|n_tᵀ q_t|, 1) + 1e-6 max_j p_tj)
    k / √width;  i = exp, f = σ or exp;  q and k of silu(conv(u) + b), v of u, by blocks of N channels each
    y = ((LN_head(h) ∘ gain + skip ∘ silu(conv(u) + b)) ∘ silu(z)) W_down

Source: Beck et al., arXiv:2405.04517, Eq. 19-27 and figure 11; the 1e-6 is in the authors' program, next to numbers
divided by the largest p.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.contract.test_numbers import Pieces
from tests.mixers.equation import Case, check_equation
from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected, sigmoid
from tests.mixers.recurrences.mamba import convolved

D = 32
KINDS = ("sigmoid", "exp")
"""of forget gates"""


def peer() -> nn.Module:
    pytest.importorskip("xlstm")
    from xlstm.blocks.mlstm.layer import mLSTMLayer, mLSTMLayerConfig

    layer = mLSTMLayer(mLSTMLayerConfig(embedding_dim=D, context_length=40, num_heads=4)).double()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter))
    return layer


def mixer_like(layer: nn.Module) -> tuple[Mixer, dict[str, Tensor]]:
    """The mixer with the peer's weights, and these as functions of the peer's parameters."""
    mixer = mixer_config({"kind": "mlstm", "heads": 4}).build(D, None).double()
    theirs = dict(layer.named_parameters())
    cell = "mlstm_cell."
    weights = {
        "w_up.weight": theirs["proj_up.weight"],
        "w_down.weight": theirs["proj_down.weight"],
        "conv.weight": theirs["conv1d.conv.weight"][:, 0].flip(1).T,
        "conv.bias": theirs["conv1d.conv.bias"],
        "qkv": torch.stack([theirs[f"{name}_proj.weight"].mT for name in "qkv"]),
        "w_gates.weight": torch.cat([theirs[f"{cell}igate.weight"], theirs[f"{cell}fgate.weight"]]),
        "w_gates.bias": torch.cat([theirs[f"{cell}igate.bias"], theirs[f"{cell}fgate.bias"]]),
        "gain": 1 + theirs[f"{cell}outnorm.weight"],
        "skip": theirs["learnable_skip"],
    }
    assert set(weights) == {name for name, _ in mixer.named_parameters()}
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            parameter.copy_(weights[name])
    return mixer, weights


@pytest.mark.parametrize("T", [1, 2, 9, 40])
def test_outputs_and_gradients_are_the_authors(T: int) -> None:
    layer = peer()
    mixer, weights = mixer_like(layer)
    x, out = torch.randn(2, T, D).double().requires_grad_(), torch.randn(2, T, D).double()
    y, expected = mixer(x), layer(x)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-10)
    actual = torch.autograd.grad((y * out).sum(), [x, *mixer.parameters()])
    parts = list(layer.parameters())
    input_gradient, *gradients = torch.autograd.grad((expected * out).sum(), [x, *parts])
    torch.testing.assert_close(actual[0], input_gradient, rtol=1e-5, atol=1e-5)  # theirs goes through 1e-6 e^{m}
    ours = [weights[name] for name, _ in mixer.named_parameters()]
    for reached, gradient in zip(torch.autograd.grad(ours, parts, actual[1:]), gradients, strict=True):
        torch.testing.assert_close(reached, gradient, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_steps_are_the_authors_but_for_the_maximum_that_theirs_begin_with() -> None:
    layer = peer()
    mixer, _ = mixer_like(layer)
    x, state, theirs = torch.randn(2, 9, D).double(), mixer.start(2), {}
    for t in range(9):
        y, state = mixer.step(x[:, t], state)
        expected, theirs = layer.step(x[:, t, None], **theirs)
        torch.testing.assert_close(y, expected[:, 0], rtol=0, atol=1e-4)
    torch.testing.assert_close(y, mixer(x)[:, -1], rtol=0, atol=1e-10)


def test_it_is_initialized_as_the_authors() -> None:
    pytest.importorskip("xlstm")
    from xlstm.blocks.mlstm.cell import mLSTMCell, mLSTMCellConfig

    theirs = mLSTMCell(mLSTMCellConfig(context_length=4, embedding_dim=2 * D, num_heads=4))
    ours = mixer_config({"kind": "mlstm", "heads": 4}).build(D, None).state_dict()
    torch.testing.assert_close(ours["w_gates.bias"][4:], theirs.fgate.bias.detach())
    assert not ours["w_gates.weight"].any()
    assert ours["gain"].eq(1).all()
    assert ours["skip"].eq(1).all()
    assert 0.8 < float(ours["qkv"].std()) / (2 / (5 * D)) ** 0.5 < 1.2


@pytest.mark.parametrize("logit", [-1e4, -100.0, 100.0, 1e4])
@pytest.mark.parametrize("gate", ["input", "forget"])
def test_gates_beyond_the_range_of_float32(gate: str, logit: float) -> None:
    """Outputs and gradients are finite, and those of float64 in pieces too."""
    mixer = mixer_config({"kind": "mlstm", "heads": 2}).build(8, None)
    with torch.no_grad():
        bias = mixer.get_parameter("w_gates.bias")
        (bias[:2] if gate == "input" else bias[2:]).fill_(logit)
    x = torch.randn(1, 300, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y = mixer(x)
    y.sum().backward()
    assert bool(y.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in mixer.parameters())
    with torch.no_grad():
        expected, state = mixer.double().extend(x[:, :77].double(), mixer.start(1))
        rest, _ = mixer.extend(x[:, 77:].double(), state)
    of_the_logit = 4 * torch.finfo(torch.float32).eps * abs(logit)  # what rounding it makes of its exponential
    torch.testing.assert_close(y.double(), torch.cat([expected, rest], 1), rtol=0, atol=1e-4 + 10 * of_the_logit)


@pytest.mark.slow
@pytest.mark.parametrize("forget", KINDS)
def test_the_maximum_has_its_gradient_through_what_is_added_to_the_normalizer(
    forget: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.mixers.recurrent.mlstm.EPS", 0.5)
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "mlstm", "heads": 2, "expand": 1, "forget": forget}).build(8, None).double()
    x = torch.randn(1, 9, 8, dtype=torch.float64)

    def pieces(bias: Tensor) -> Tensor:
        return torch.func.functional_call(Pieces(mixer), {"mixer.w_gates.bias": bias}, (x,))

    assert torch.autograd.gradcheck(pieces, (mixer.get_parameter("w_gates.bias"),))


@torch.no_grad()
def test_both_forget_gates_have_the_same_initial_memory() -> None:
    sigmoid, exp = (mixer_config({"kind": "mlstm", "heads": 4, "forget": kind}).build(8, None) for kind in KINDS)
    logits, logs = (mixer.get_parameter("w_gates.bias")[4:] for mixer in (sigmoid, exp))
    torch.testing.assert_close(logits.sigmoid(), logs.exp())
    assert bool((logs < 0).all())


def by_blocks(x: Array, w: Array) -> Array:
    """w (blocks, N, N)."""
    N = w.shape[1]
    return np.hstack([projected(x[:, b * N : (b + 1) * N], w[b]) for b in range(len(w))])


def cell(q: Array, k: Array, v: Array, log_i: Array, f: Array) -> Array:
    """One head."""
    T, K = q.shape
    h = np.zeros((T, K))
    for t in range(T):
        C, n = np.zeros((K, K)), np.zeros(K)
        weights = [math.exp(log_i[j]) * math.prod(f[j + 1 : t + 1]) for j in range(t + 1)]
        for j, weight in enumerate(weights):
            C += weight * np.outer(v[j], k[j]) / math.sqrt(K)
            n += weight * k[j] / math.sqrt(K)
        h[t] = C @ q[t] / (max(abs(dot(n, q[t])), 1.0) + 1e-6 * max(weights))
    return h


def mlstm(x: Array, w: Weights, heads: int, forget: str) -> Array:
    """x (T, D) -> (T, D); w["taps"] is (channels, W)."""
    made = projected(x, w["w_up"])
    E = made.shape[1] // 2
    u, z = made[:, :E], made[:, E:]
    c = each(silu, convolved(u, w["taps"].T, w["b_taps"]))
    q, k, v = (by_blocks(given, blocks) for given, blocks in zip((c, c, u), w["qkv"], strict=True))
    gates = projected(np.hstack([q, k, v]), w["w_gates"]) + w["b_gates"]
    f = each(sigmoid if forget == "sigmoid" else math.exp, gates[:, heads:])
    K, y = E // heads, np.zeros((len(x), E))
    for head in range(heads):
        part = slice(head * K, (head + 1) * K)
        h = cell(q[:, part], k[:, part], v[:, part], gates[:, head], f[:, head])
        for t in range(len(x)):
            y[t, part] = (h[t] - h[t].mean()) / math.sqrt(h[t].var() + 1e-5)
    return out((y * w["gain"] + w["skip"] * c) * each(silu, z), w)


LETTERS = {
    **{"w_up.weight": "w_up", "w_down.weight": "w_out", "conv.weight": "taps", "conv.bias": "b_taps"},
    **{"qkv": "qkv", "w_gates.weight": "w_gates", "w_gates.bias": "b_gates", "gain": "gain", "skip": "skip"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "mlstm": ({"kind": "mlstm", "heads": 2, "block": 2}, lambda x, w: mlstm(x, w, 2, "sigmoid")),
    "mlstm, forget exp": (
        {"kind": "mlstm", "heads": 1, "forget": "exp"},
        lambda x, w: mlstm(x, w, 1, "exp"),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_mlstm_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
