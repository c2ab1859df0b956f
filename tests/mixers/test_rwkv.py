"""RWKV's time mixing: its paper's recurrence, RWKV-4 of `transformers` with weights copied, initial values and views.

The peer's path without CUDA rounds keys to float32. Tokens, shares and key weights are therefore multiples of 1/8 and
1/4 here, so that every key is a float32 number: outputs then agree in float64. Gradients still pass through that
rounding.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.equation import PROJECTIONS, Case, check_equation
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.rwkv import channel_mixing, time_mixing


def rwkv(x: Array, w: Weights) -> Array:
    return time_mixing(x, {**w, "decay": np.exp(w["log_decay"])})


LETTERS = {
    **{**PROJECTIONS, "w_r.weight": "w_r", "log_rate": "log_decay", "bonus": "bonus"},
    **{f"mu_{name}": f"mu_{name}" for name in "rkv"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "rwkv": ({"kind": "rwkv"}, rwkv),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_rwkv_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


D = 4


def mixer_of(kind: str, **settings: int) -> Mixer:
    mixer = mixer_config({"kind": kind, **settings}).build(dim=D, context=None).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return mixer


def test_initial_values_of_rwkv() -> None:
    """Written out for 3 channels: the first layer of three, the last, and the only one."""
    ways = {
        (0, 3): ([-5, -5 + 8 * 0.5**0.7, 3], [0, 1 / 3, 2 / 3], [0, 1 / 3, 2 / 3], [0, (1 / 3) ** 0.5, (2 / 3) ** 0.5]),
        (2, 3): (
            [-5, -5 + 8 * 0.5**2, 3],
            [0, (1 / 3) ** (1 / 3), (2 / 3) ** (1 / 3)],
            [0.3, (1 / 3) ** (1 / 3) + 0.3, (2 / 3) ** (1 / 3) + 0.3],
            [0, (1 / 3) ** (1 / 6), (2 / 3) ** (1 / 6)],
        ),
        (0, 1): ([-5, -5 + 8 * 0.5**0.7, 3], [0, 1 / 3, 2 / 3], [0, 1 / 3, 2 / 3], [0, (1 / 3) ** 0.5, (2 / 3) ** 0.5]),
    }
    for (layer, depth), expected in ways.items():
        mixer = mixer_config({"kind": "rwkv"}).build(3, None, layer=layer, depth=depth)
        for actual, numbers in zip((mixer.log_rate, mixer.mu_k, mixer.mu_v, mixer.mu_r), expected, strict=True):
            np.testing.assert_allclose(actual.detach().numpy(), numbers, atol=1e-6)
        np.testing.assert_allclose(mixer.bonus.detach().numpy(), math.log(0.3) + np.array([0, 0.5, -0.5]), atol=1e-6)
    for parameter in mixer_config({"kind": "rwkv"}).build(1, None).parameters():
        assert bool(parameter.isfinite().all())


def test_reset_draws_matrices_and_puts_the_rest_back() -> None:
    mixer = mixer_config({"kind": "rwkv"}).build(64, None, layer=1, depth=4)
    before = {name: parameter.detach().clone() for name, parameter in mixer.named_parameters()}
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(1.0)
    mixer.reset(0.01)
    for name, parameter in mixer.named_parameters():
        if name.startswith("w_"):
            assert 0.008 < float(parameter.detach().std()) < 0.012, name
        else:
            assert torch.equal(parameter, before[name]), name


def test_rates_bonuses_and_mu_are_not_decayed() -> None:
    mixer = mixer_config({"kind": "rwkv"}).build(8, None)
    _, group = mixer.param_groups()
    vectors = {id(parameter) for parameter in mixer.parameters() if parameter.ndim == 1}
    assert group["weight_decay"] == 0
    assert {id(parameter) for parameter in group["params"]} == vectors


def test_views_are_the_weights_that_it_reads_with() -> None:
    mixer, x = mixer_of("rwkv"), torch.randn(1, 6, D, dtype=torch.float64)
    decay = mixer.plots(x)[0].values.detach()
    with torch.no_grad():
        mixer.mu_k.fill_(1.0)
        mixer.mu_v.fill_(1.0)
        mixer.mu_r.fill_(1.0)
        k, v, r = mixer.w_k(x)[0], mixer.w_v(x)[0], mixer.w_r(x)[0]
        weights = decay.flip(0) * k.exp()  # of the last position
        expected = mixer.w_out(torch.sigmoid(r[-1]) * (weights * v).sum(0) / weights.sum(0))
        torch.testing.assert_close(mixer(x)[0, -1], expected, rtol=0, atol=1e-12)
        aft_simple = mixer_of("aft_simple")
        mean = aft_simple.plots(x)[0].values
        a = torch.stack([aft_simple.w_k(x[0, : t + 1]).softmax(0).mean(1) for t in range(6)][-1:])
        torch.testing.assert_close(mean[-1:], a, rtol=0, atol=1e-12)
        assert torch.equal(mean, mean.tril())


D_PEER = 8


def coarse(*shape: int, of: int) -> Tensor:
    """Numbers from -1 to 1 in steps of 1/of."""
    return torch.randint(-of, of + 1, shape, dtype=torch.float64) / of


def peer(block: str) -> nn.Module:
    """A time or channel mixing block of the peer, in float64, with coarse weights."""
    transformers = pytest.importorskip("transformers")
    config = transformers.RwkvConfig(hidden_size=D_PEER, num_hidden_layers=1, vocab_size=4, context_length=32)
    torch.manual_seed(3)
    module = getattr(transformers.models.rwkv.modeling_rwkv, block)(config).double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(coarse(*parameter.shape, of=4 if "time_mix" in name else 8))
    return module


def weights(module: nn.Module) -> dict[str, np.ndarray]:
    """The peer's parameters by the paper's letters."""
    ours = {"key": "k", "value": "v", "receptance": "r"}
    result = {}
    for name, tensor in module.named_parameters():
        array = tensor.detach().numpy()
        if name.startswith("time_mix_"):
            result[f"mu_{ours[name.removeprefix('time_mix_')]}"] = array.reshape(-1)
        elif name == "output.weight":
            result["w_out"] = array.T
        elif name.endswith(".weight"):
            result[f"w_{ours[name.removesuffix('.weight')]}"] = array.T
    if "w_out" in result:
        result |= {"decay": np.exp(module.time_decay.detach().numpy()), "bonus": module.time_first.detach().numpy()}
    return result


@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_the_recurrence_is_the_peers_time_mixing(T: int) -> None:
    module, x = peer("RwkvSelfAttention"), coarse(1, T, D_PEER, of=8)
    expected = module(x)[0][0].detach().numpy()
    np.testing.assert_allclose(time_mixing(x[0].numpy(), weights(module)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_the_recurrence_is_the_peers_channel_mixing(T: int) -> None:
    module, x = peer("RwkvFeedForward"), coarse(1, T, D_PEER, of=8)
    expected = module(x)[0][0].detach().numpy()
    np.testing.assert_allclose(channel_mixing(x[0].numpy(), weights(module)), expected, rtol=0, atol=1e-12)


PARTS = {
    **{"mu_k": "time_mix_key", "mu_v": "time_mix_value", "mu_r": "time_mix_receptance"},
    **{"w_k.weight": "key.weight", "w_v.weight": "value.weight", "w_r.weight": "receptance.weight"},
    **{"w_out.weight": "output.weight", "log_rate": "time_decay", "bonus": "time_first"},
}
"""the peer's name of each of the mixer's parameters"""


def mixer_like(module: nn.Module) -> Mixer:
    mixer = mixer_config({"kind": "rwkv"}).build(dim=D_PEER, context=32).double()
    theirs = dict(module.named_parameters())
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            parameter.copy_(theirs[PARTS[name]].reshape(parameter.shape))
    return mixer


@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_the_mixer_is_the_peers_time_mixing(T: int) -> None:
    module = peer("RwkvSelfAttention")
    mixer = mixer_like(module)
    x, out = coarse(2, T, D_PEER, of=8), torch.randn(2, T, D_PEER, dtype=torch.float64)
    grads = []
    for part, read in ((mixer, mixer), (module, lambda x: module(x)[0])):
        tokens = x.clone().requires_grad_()
        y = read(tokens)
        (y * out).sum().backward()
        grads.append((y, tokens.grad, dict(part.named_parameters())))
    (y, grad, ours), (expected, their_grad, theirs) = grads
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(grad, their_grad, rtol=1e-6, atol=1e-6)
    assert set(ours) == set(PARTS)
    for name, parameter in ours.items():
        actual, wanted_grad = (
            (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in (parameter, theirs[PARTS[name]])
        )
        torch.testing.assert_close(actual, wanted_grad, rtol=1e-6, atol=1e-6, msg=name)
