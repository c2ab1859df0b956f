"""AFT-simple and RWKV's time mixing against their equations in plain numpy, and RWKV's initial values."""

import math

import numpy as np
import pytest
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops.backends import use

D = 4


def mixer_of(kind: str, **settings: int) -> Mixer:
    mixer = mixer_config({"kind": kind, **settings}).build(dim=D, context=None).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.5)
    return mixer


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def aft(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
    q, k, v = (x @ p[f"w_{name}.weight"].T for name in "qkv")
    averages = [
        sum(np.exp(k[j]) * v[j] for j in range(t + 1)) / sum(np.exp(k[j]) for j in range(t + 1)) for t in range(len(x))
    ]
    return (sigmoid(q) * np.array(averages)) @ p["w_out.weight"].T


def rwkv(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
    before = np.concatenate([np.zeros((1, D)), x[:-1]])
    r, k, v = ((x * p[f"mu_{n}"] + before * (1 - p[f"mu_{n}"])) @ p[f"w_{n}.weight"].T for n in "rkv")
    w, u = np.exp(p["log_rate"]), p["bonus"]
    averages = []
    for t in range(len(x)):
        terms = [(np.exp(k[j] - (t - 1 - j) * w), v[j]) for j in range(t)] + [(np.exp(u + k[t]), v[t])]
        averages.append(sum(weight * value for weight, value in terms) / sum(weight for weight, _ in terms))
    return (sigmoid(r) * np.array(averages)) @ p["w_out.weight"].T


@pytest.mark.parametrize(("kind", "equation"), [("aft_simple", aft), ("rwkv", rwkv)])
@pytest.mark.parametrize("backend", ["reference", "sequential", "doubling"])
@pytest.mark.parametrize("T", [1, 2, 9])
def test_outputs(kind: str, equation, backend: str, T: int) -> None:
    mixer, x = mixer_of(kind), np.random.default_rng(T).normal(size=(2, T, D))
    p = {name: parameter.detach().numpy() for name, parameter in mixer.named_parameters()}
    with use(wkv_average=backend):
        result = mixer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(result, np.stack([equation(row, p) for row in x]), rtol=0, atol=1e-12)


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
    decay = mixer.views(x)[0].values.detach()
    with torch.no_grad():
        mixer.mu_k.fill_(1.0)
        mixer.mu_v.fill_(1.0)
        mixer.mu_r.fill_(1.0)
        k, v, r = mixer.w_k(x)[0], mixer.w_v(x)[0], mixer.w_r(x)[0]
        weights = decay.flip(0) * k.exp()  # of the last position
        expected = mixer.w_out(torch.sigmoid(r[-1]) * (weights * v).sum(0) / weights.sum(0))
        torch.testing.assert_close(mixer(x)[0, -1], expected, rtol=0, atol=1e-12)
        aft_simple = mixer_of("aft_simple")
        mean = aft_simple.views(x)[0].values
        a = torch.stack([aft_simple.w_k(x[0, : t + 1]).softmax(0).mean(1) for t in range(6)][-1:])
        torch.testing.assert_close(mean[-1:], a, rtol=0, atol=1e-12)
        assert torch.equal(mean, mean.tril())
