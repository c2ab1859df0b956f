"""sLSTM against the authors' program (xlstm 2.0.6, backend vanilla), and gates that leave the range of float32.

sLSTM as the paper writes it, without a maximum, unit by unit.

    z̃_t = w_zᵀ x_t + r_zᵀ h_{t-1} + b_z,  so ĩ and f̃ from silu(conv(x)), õ from x                   Eq. 11-14
    c_t = f_t c_{t-1} + i_t z_t,  n_t = f_t n_{t-1} + i_t,  h_t = o_t c_t / n_t                     Eq. 8-10
    z = tanh(z̃),  i = exp(ĩ),  f = σ(f̃),  o = σ(õ)
    y = (h - mean) / √(variance + 1e-5) ∘ gain  of each head

Source: Beck et al., xLSTM, arXiv:2405.04517, section 2.2 and figure 10.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.equation import Case, check_equation
from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, product, projected, sigmoid
from tests.mixers.recurrences.mamba import convolved

D, H = 32, 4


def peer() -> nn.Module:
    pytest.importorskip("xlstm")
    from xlstm.blocks.slstm.layer import sLSTMLayer, sLSTMLayerConfig

    layer = sLSTMLayer(sLSTMLayerConfig(embedding_dim=D, num_heads=H, backend="vanilla")).double()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter))
    return layer


def mixer_like(layer: nn.Module) -> tuple[Mixer, dict[str, Tensor]]:
    """The mixer with the peer's weights, and these as functions of the peer's parameters."""
    mixer = mixer_config({"kind": "slstm", "heads": H}).build(D, None).double()
    theirs = dict(layer.named_parameters())
    kernel = theirs["slstm_cell._recurrent_kernel_"]  # (H, 4K, K), the gates one below the other
    weights = {
        "conv.weight": theirs["conv1d.conv.weight"][:, 0].flip(1).T,
        "conv.bias": theirs["conv1d.conv.bias"],
        "w_if.weight": torch.cat([theirs["fgate.weight"], theirs["igate.weight"]], 1).mT,  # fgate makes ĩ there
        "w_zo.weight": torch.cat([theirs["zgate.weight"], theirs["ogate.weight"]], 1).mT,
        "w_h.weight": kernel.mT,
        "w_h.bias": theirs["slstm_cell._bias_"].view(4, H, D // H).transpose(0, 1).flatten(1),
        "gain": 1 + theirs["group_norm.weight"],
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
    torch.testing.assert_close(actual[0], input_gradient, rtol=1e-9, atol=1e-10)
    ours = [weights[name] for name, _ in mixer.named_parameters()]
    for reached, gradient in zip(torch.autograd.grad(ours, parts, actual[1:]), gradients, strict=True):
        torch.testing.assert_close(reached, gradient, rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_steps_are_the_authors() -> None:
    layer = peer()
    mixer, _ = mixer_like(layer)
    x, state, theirs = torch.randn(2, 9, D).double(), mixer.start(2), {}
    for t in range(9):
        y, state = mixer.step(x[:, t], state)
        expected, theirs = layer.step(x[:, t, None], **theirs)
        torch.testing.assert_close(y, expected[:, 0], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("layer", "depth"), [(0, 1), (0, 4), (2, 4), (3, 4)])
def test_it_is_initialized_as_the_authors(layer: int, depth: int) -> None:
    pytest.importorskip("xlstm")
    from xlstm.blocks.slstm.layer import sLSTMLayer, sLSTMLayerConfig

    settings = {"embedding_dim": D, "num_heads": H, "backend": "vanilla"}
    theirs = sLSTMLayer(sLSTMLayerConfig(**settings, _block_idx=layer, _num_blocks=depth))
    theirs.reset_parameters()
    ours = mixer_config({"kind": "slstm", "heads": H}).build(D, None, layer=layer, depth=depth).state_dict()
    bias = theirs.state_dict()["slstm_cell._bias_"].view(4, H, D // H).transpose(0, 1).flatten(1)
    torch.testing.assert_close(ours["w_h.bias"], bias)
    assert not ours["w_h.weight"].any()
    assert ours["gain"].eq(1).all()
    for name, gate in (("w_if", "igate"), ("w_zo", "zgate")):
        drawn = theirs.get_parameter(f"{gate}.weight").detach()
        assert 0.8 < float(ours[f"{name}.weight"].std() / drawn.std()) < 1.25


def test_what_is_not_decayed_is_what_the_authors_do_not_decay() -> None:
    """Their `_create_weight_decay_optim_groups` decays what has `weight` and no `norm` in its name: R has neither."""
    mixer = mixer_config({"kind": "slstm", "heads": H}).build(D, None)
    decayed, undecayed = mixer.param_groups()
    named = {id(parameter): name for name, parameter in mixer.named_parameters()}
    names = [{named[id(parameter)] for parameter in group["params"]} for group in (decayed, undecayed)]
    assert names[0] == {"conv.weight", "w_if.weight", "w_zo.weight"}
    assert names[1] == {"w_h.weight", "w_h.bias", "conv.bias", "gain"}
    assert undecayed["weight_decay"] == 0.0


@pytest.mark.parametrize("logit", [-1e4, -100.0, 100.0, 1e4])
@pytest.mark.parametrize("gate", [0, 1], ids=["input", "forget"])
def test_gates_beyond_the_range_of_float32(gate: int, logit: float) -> None:
    """Outputs and gradients are finite, and those of float64 in pieces too."""
    mixer = mixer_config({"kind": "slstm", "heads": 2}).build(8, None)
    with torch.no_grad():
        mixer.get_parameter("w_h.bias").view(2, 4, 4)[:, gate] = logit
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


@torch.no_grad()
def test_inputs_of_ten_thousand_for_16384_tokens() -> None:
    mixer = mixer_config({"kind": "slstm", "heads": 2}).build(8, None)
    assert bool(mixer(1e4 * torch.randn(1, 16384, 8)).isfinite().all())


def test_heads_of_slstm_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        mixer_config({"kind": "slstm", "heads": 3}).build(8, None)


def slstm(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w_if and w_zo are (2K, K, H), w_h (4K, K, H) and b_h (H, 4K), for i, f, z, o."""
    s = each(silu, convolved(x, w["taps"].T, w["b_taps"]))
    _, K, H = w["w_h"].shape
    y = np.zeros_like(x)
    for head in range(H):
        i_f, z_o = (projected(cut(u, head, H), w[name][:, :, head].T) for u, name in ((s, "w_if"), (x, "w_zo")))
        h, c, n = np.zeros(K), np.zeros(K), np.zeros(K)
        for t in range(len(x)):
            recurrent = product(h, w["w_h"][:, :, head].T) + w["b_h"][head]
            i, f, z, o = (np.concatenate([i_f[t], z_o[t]]) + recurrent).reshape(4, K)
            for k in range(K):
                c[k] = sigmoid(f[k]) * c[k] + math.exp(i[k]) * math.tanh(z[k])
                n[k] = sigmoid(f[k]) * n[k] + math.exp(i[k])
                h[k] = sigmoid(o[k]) * c[k] / n[k]
            y[t, head * K : (head + 1) * K] = (h - h.mean()) / math.sqrt(h.var() + 1e-5)
    return y * w["gain"]


LETTERS = {
    **{"conv.weight": "taps", "conv.bias": "b_taps", "w_if.weight": "w_if", "w_zo.weight": "w_zo"},
    **{"w_h.weight": "w_h", "w_h.bias": "b_h", "gain": "gain"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "slstm": ({"kind": "slstm", "heads": 2}, slstm),
    "slstm, 1 head": ({"kind": "slstm", "heads": 1, "kernel": 2}, slstm),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_slstm_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
