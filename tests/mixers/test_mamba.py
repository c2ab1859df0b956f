"""S6 and Mamba against their papers' recurrences at the papers' settings; initial values, training, views."""

import numpy as np
import pytest
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.recurrences.mamba import mamba
from tests.mixers.recurrences.s6 import s6

D = 8
NAMES = {
    **{"in_proj.weight": "w_in", "conv_weight": "taps", "conv_bias": "b_taps", "x_proj.weight": "w_x"},
    **{"dt_proj.weight": "w_delta", "dt_proj.bias": "b_delta", "a_log": "a", "d": "D", "out_proj.weight": "w_out"},
}
CASES = {
    "mamba": {"kind": "mamba"},
    "mamba, other sizes": {"kind": "mamba", "state_dim": 3, "expand": 3, "kernel": 6, "dt_rank": 2},
    "mamba, one tap": {"kind": "mamba", "state_dim": 2, "kernel": 1},
    "s6": {"kind": "s6"},
    "s6, other sizes": {"kind": "s6", "state_dim": 3, "dt_rank": 5},
}
every_case = pytest.mark.parametrize("name", CASES)


def made(name: str, dim: int = D) -> Mixer:
    torch.manual_seed(1)
    return mixer_config(CASES[name]).build(dim=dim, context=None).double()


def paper(mixer: Mixer, x: np.ndarray) -> np.ndarray:
    """The recurrence with this mixer's weights; the parts of W_x in their order: Δ's, B, C."""
    w = {NAMES[name]: parameter.detach().numpy() for name, parameter in mixer.named_parameters()}
    w = {name: each.T if name in ("w_in", "w_x", "w_delta", "w_out") else each for name, each in w.items()}
    if "w_in" in w:
        return mamba(x, w)
    R, N = w["w_delta"].shape[0], w["a"].shape[1]
    return s6(x, {**w, "w_r": w["w_x"][:, :R], "w_b": w["w_x"][:, R : R + N], "w_c": w["w_x"][:, R + N :]})


@every_case
@pytest.mark.parametrize("T", [1, 2, 9])
def test_the_papers_recurrence(name: str, T: int) -> None:
    mixer, x = made(name), np.random.default_rng(T).normal(size=(T, D))
    expected, tokens = paper(mixer, x), torch.from_numpy(x)[None]
    with torch.no_grad():
        np.testing.assert_allclose(mixer(tokens)[0].numpy(), expected, rtol=0, atol=1e-12)
        for reuse in (False, True):
            state, actual = mixer.start(1), []
            for t in range(T):
                y, state = mixer.step(tokens[:, t], state, reuse=reuse)
                actual.append(y[0].numpy())
            np.testing.assert_allclose(np.stack(actual), expected, rtol=0, atol=1e-12)


@every_case
@pytest.mark.parametrize("backend", ["reference", "sequential", "doubling"])
def test_steps_and_pieces_without_native_code(name: str, backend: str) -> None:
    mixer, x = made(name), torch.randn(2, 7, D, dtype=torch.float64)
    with torch.no_grad(), backends.use(selective_scan=backend):
        first, state = mixer.extend(x[:, :3], mixer.start(2))
        outputs = [*first.unbind(1)]
        for t in range(3, 7):
            y, state = mixer.step(x[:, t], state, reuse=t > 4)
            outputs.append(y)
        whole = mixer(x)
    torch.testing.assert_close(torch.stack(outputs, 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(whole, mixer(x).detach(), rtol=0, atol=1e-12)


@every_case
def test_initial_values_and_reset(name: str) -> None:
    torch.manual_seed(0)
    mixer = mixer_config(CASES[name]).build(dim=96, context=None)
    for again in (False, True):
        if again:
            with torch.no_grad():
                for parameter in mixer.parameters():
                    parameter.fill_(9.0)
            mixer.reset(0.02)
        rates = mixer.a_log.exp()
        torch.testing.assert_close(rates, torch.arange(1.0, rates.shape[1] + 1).expand_as(rates))
        assert bool((mixer.d == 1).all())
        steps = torch.nn.functional.softplus(mixer.dt_proj.bias.detach())
        assert 0.99e-3 < float(steps.min()) < 2e-3 < 5e-2 < float(steps.max()) < 0.101
        assert 0.3 < float((steps < 1e-2).float().mean()) < 0.7, "not log-uniform"
        rank = mixer.dt_proj.weight.shape[1]
        assert 0.9 < float(mixer.dt_proj.weight.detach().abs().max()) * rank**0.5 <= 1
    assert 0.015 < float(mixer.x_proj.weight.detach().std()) < 0.025


def test_the_floor_of_the_steps() -> None:
    mixer = mixer_config({"kind": "mamba", "dt_min": 1e-9, "dt_max": 1e-8}).build(16, None)
    torch.testing.assert_close(torch.nn.functional.softplus(mixer.dt_proj.bias), torch.full((32,), 1e-4))
    for kind in ("mamba", "s6"):
        with pytest.raises(ValueError, match="longer than the longest"):
            mixer_config({"kind": kind, "dt_min": 0.2})


@pytest.mark.parametrize("kind", ["mamba", "s6"])
def test_rates_and_what_is_passed_on_are_not_decayed(kind: str) -> None:
    mixer = made(kind)
    rest, special = mixer.param_groups()
    assert special["weight_decay"] == 0.0
    assert {id(each) for each in special["params"]} == {id(mixer.a_log), id(mixer.d)}
    assert len(rest["params"]) + 2 == len(list(mixer.parameters()))


@pytest.mark.parametrize("kind", ["mamba", "s6"])
def test_views_are_of_the_first_row(kind: str) -> None:
    mixer, x = made(kind), torch.randn(2, 6, D, dtype=torch.float64)
    with torch.no_grad():
        views = {view.name: view for view in mixer.views(x)}
        assert bool((views["step"].values > 0).all())
        torch.testing.assert_close(views["rate"].values, mixer.a_log.exp())
        assert views["step"].values.shape == (6, len(mixer.a_log))


@pytest.mark.parametrize("kind", ["mamba", "s6"])
@torch.no_grad()
def test_long_and_large(kind: str) -> None:
    """16,384 tokens, and tokens of 1e4, in float32."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": kind, "state_dim": 2}).build(4, None)
    x = torch.randn(1, 16_384, 4)
    y = mixer(x)
    expected = mixer.double()(x.double())
    assert float((y - expected).norm() / expected.norm()) < 1e-5
    assert bool(mixer.float()(1e4 * x[:, :99]).isfinite().all())
