"""The modal Extractor: the Extractor with the taps of its poles, its equation in a loop, initial values, its state."""

import cmath
import math
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.core.state import nbytes
from seqloom.mixers import mixer_config
from seqloom.mixers.extractors.extractors import Extractor
from seqloom.mixers.extractors.modal_extractor import LONG, ModalExtractor, ModalExtractorConfig

D, N = 3, 2
SETTINGS = [
    {"taps": taps, "in_proj": in_proj, "adjust": adjust, "out_proj": out_proj}
    for taps, in_proj, adjust, out_proj in product(("channel", "shared"), *[(True, False)] * 3)
]


def built(order: int = N, dim: int = D, context: int | None = 6, **settings: object) -> ModalExtractor:
    torch.manual_seed(0)
    return ModalExtractorConfig.model_validate({"order": order, **settings}).build(dim, context).double()


def loud(**settings: object) -> ModalExtractor:
    """With parameters that leave no term at 0."""
    mixer = built(**settings)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(drawn(*parameter.shape) * 0.7)
    return mixer


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def poles(mixer: ModalExtractor, channel: int) -> tuple[list[complex], list[complex], float]:
    """λ, c and d of a channel, from the parameters by name."""
    row = 0 if mixer.tied else channel
    fading = [
        cmath.exp(complex(-math.exp(a), w))
        for a, w in zip(mixer.log_rate[row].tolist(), mixer.frequency[row].tolist(), strict=True)
    ]
    return fading, [complex(*c) for c in mixer.c[row].tolist()], float(mixer.d[row].detach())


def looped(mixer: ModalExtractor, x: np.ndarray) -> np.ndarray:
    """y (T, D) of one row x (T, D), from the equation."""
    w_in, w_adj, w_out = (
        np.eye(mixer.dim) if each is None else each.weight.detach().numpy().T
        for each in (mixer.w_in, mixer.w_adj, mixer.w_out)
    )
    z, e = x @ w_in, np.zeros_like(x)
    for channel in range(mixer.dim):
        fading, weights, direct = poles(mixer, channel)
        h = [0j] * mixer.order
        for t in range(len(x)):
            h = [pole * state + z[t, channel] for pole, state in zip(fading, h, strict=True)]
            e[t, channel] = direct * z[t, channel] + 2 * sum(c * s for c, s in zip(weights, h, strict=True)).real
    return (e if mixer.w_adj is None else (x @ w_adj) * e) @ w_out


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_equation_in_a_loop(settings: dict[str, object]) -> None:
    mixer, x = loud(**settings), drawn(2, 70, D)
    with torch.no_grad():
        y = mixer(x)
    for row in range(2):
        np.testing.assert_allclose(y[row], looped(mixer, x[row].numpy()), atol=1e-10)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_extractor_of_its_taps(settings: dict[str, object]) -> None:
    """An Extractor with L = T lags and the response of the poles for taps: the same outputs, read in any way."""
    mixer, x, T = loud(**settings), drawn(2, 90, D), 90
    shared = settings["taps"] == "shared"
    other = Extractor(
        D, T, "shared" if shared else D, bool(settings["in_proj"]), bool(settings["adjust"]), bool(settings["out_proj"])
    ).double()
    w = np.array(
        [
            [
                direct * (k == 0) + 2 * sum(c * pole**k for c, pole in zip(weights, fading, strict=True)).real
                for fading, weights, direct in [poles(mixer, channel) for channel in range(1 if shared else D)]
            ]
            for k in range(T)
        ]
    )
    np.testing.assert_allclose(mixer.taps(T), w, atol=1e-12)
    taps = torch.from_numpy(w[:, 0] if shared else w)
    matrices = {name: value for name, value in mixer.state_dict().items() if name.startswith("w_")}
    other.load_state_dict({"w_ext": taps, **matrices})
    with torch.no_grad():
        np.testing.assert_allclose(mixer(x), other(x), atol=1e-10)
        y, state = mixer.extend(x[:, :61], mixer.start(2))
        token, _ = mixer.step(x[:, 61], state)
        np.testing.assert_allclose(torch.cat([y, token[:, None]], 1), other(x)[:, :62], atol=1e-10)


def test_waves_are_initialized_as_decays_spread_over_the_context() -> None:
    mixer = built(order=4, dim=5, context=81)
    np.testing.assert_allclose(-1 / -mixer.log_rate.exp().detach(), [[3, 9, 27, 81]] * 5, rtol=1e-6)
    assert not mixer.frequency.any()
    assert not mixer.d.any()
    np.testing.assert_allclose(built(order=1, context=None).log_rate.detach(), -math.log(LONG), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("taps", ["channel", "shared"])
def test_the_extraction_begins_as_loud_as_its_input(taps: str) -> None:
    energy = [
        float(ModalExtractorConfig(order=8, taps=taps).build(400, 64).double().taps(2000).square().sum(0).mean())
        for _ in range(1 if taps == "channel" else 400)
    ]
    assert 0.8 < np.mean(energy) < 1.2


def test_reset_draws_the_waves_again_whatever_std() -> None:
    mixer = loud()
    mixer.reset(1e-3)
    assert not mixer.frequency.any()
    assert float(mixer.w_in.weight.detach().abs().max()) < 1e-2 < float(mixer.c.detach().abs().max())


def test_the_state_does_not_grow() -> None:
    mixer = loud(order=5)
    state = mixer.start(2)
    before = nbytes(state)
    assert before == 2 * D * 5 * 2 * 8
    with torch.no_grad():
        for length in (1, 40, 500):
            _, state = mixer.extend(drawn(2, length, D), state)
            assert nbytes(mixer.trim(state)) == before
    assert mixer.cost(3, "token") == mixer.cost(3000, "token")


def test_it_forgets_for_good() -> None:
    """Whatever the parameters, |λ| < 1: a loud past fades away and nothing overflows."""
    mixer = loud(order=2, in_proj=False, adjust=False, out_proj=False)
    x = torch.zeros(1, 4000, D, dtype=torch.float64)
    x[:, 0] = 1e6
    with torch.no_grad():
        y = mixer(x)[0].abs()
    assert (y[-1] < 1e-6).all()
    assert (y[0] > 1).all()


def test_decay_spares_the_waves() -> None:
    mixer = built()
    groups = {group.get("weight_decay"): group["params"] for group in mixer.param_groups()}
    assert [id(group) for group in groups[0.0]] == [id(mixer.log_rate), id(mixer.frequency)]
    assert sum(len(group) for group in groups.values()) == len(list(mixer.parameters()))


@pytest.mark.parametrize("wrong", [{"order": 0}, {"taps": "none"}, {"ordr": 3}])
def test_calls_that_raise_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        mixer_config({"kind": "modal_extractor", **wrong})
    with pytest.raises(ValueError, match="context"):
        mixer_config({"kind": "modal_extractor"}).build(4, 0)
