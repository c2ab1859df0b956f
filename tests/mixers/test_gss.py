"""GSS: its widths, its kernel by plain powers, its equation number by number, and long sequences."""

import cmath
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers.state_space.gss import GSS, GSSConfig
from seqloom.ops.backends import use
from tests.at_once import first
from tests.mixers.equation import Case, check_equation, check_long, check_without_guards
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.eigenvalues import of_pairs
from tests.mixers.recurrences.gss import gss
from tests.mixers.recurrences.guards import GUARDS


def built(dim: int = 4, **settings: int) -> GSS:
    torch.manual_seed(0)
    return GSSConfig(**settings).build(dim, None).double()


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def weight(mixer: GSS, c: int, lag: int) -> float:
    """K_l of channel c as the paper's listing has it, from the parameters by name."""
    total = 0.0
    for a, b, (real, imag) in zip(
        mixer.log_rate.tolist(), mixer.log_frequency.tolist(), mixer.c[c].tolist(), strict=True
    ):
        rate = complex(-math.exp(a), math.exp(b))
        total += (complex(real, imag) * (cmath.exp(rate) - 1) / rate * cmath.exp(rate * lag)).real
    return total


def gelu(z: np.ndarray) -> np.ndarray:
    return np.array([each * (1 + math.erf(each / math.sqrt(2))) / 2 for each in z.ravel()]).reshape(z.shape)


def matrix(layer: torch.nn.Linear) -> np.ndarray:
    assert layer.bias is None
    return layer.weight.detach().numpy().T


@pytest.mark.slow
def test_widths_are_the_papers_by_default() -> None:
    mixer = GSSConfig().build(1024, None)
    assert (mixer.channels, mixer.width, mixer.state_dim) == (256, 4096, 512)
    mixer = GSSConfig(channels=3, width=5, state_dim=2).build(8, None)
    shapes = {name: tuple(tensor.shape) for name, tensor in mixer.named_parameters()}
    assert (shapes["w_u.weight"], shapes["w_v.weight"]) == ((3, 8), (5, 8))
    assert (shapes["c"], shapes["log_rate"]) == ((3, 2, 2), (2,))
    assert GSSConfig(state_dim=2).build(3, None).channels == 1


def test_the_kernel_of_gss_is_made_of_powers() -> None:
    mixer = built(channels=3, state_dim=5)
    expected = np.array([[weight(mixer, c, lag) for c in range(3)] for lag in range(20)])
    view = next(view for view in mixer.plots(drawn(1, 20, 4)) if view.name == "kernel")
    np.testing.assert_allclose(view.values.detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("states", [3, 70])
def test_gss_is_its_equation(states: int) -> None:
    """With 70 states through the FFT."""
    mixer, x = built(channels=3, width=6, state_dim=states), drawn(1, 19, 4)
    with torch.no_grad():
        mixer.norm.weight.copy_(torch.tensor([0.5, 1.0, 2.0]))
        mixer.norm.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))
    u, v = gelu(x[0].numpy() @ matrix(mixer.w_u)), gelu(x[0].numpy() @ matrix(mixer.w_v))
    u = (u - u.mean(1, keepdims=True)) / np.sqrt(u.var(1, keepdims=True) + mixer.norm.eps)
    u = u * mixer.norm.weight.detach().numpy() + mixer.norm.bias.detach().numpy()
    K = np.array([[weight(mixer, c, lag) for c in range(3)] for lag in range(19)])
    y = np.stack([sum(K[lag] * u[t - lag] for lag in range(t + 1)) for t in range(19)]) + u * mixer.d.detach().numpy()
    expected = ((y @ matrix(mixer.w_y)) * v) @ matrix(mixer.w_out)
    np.testing.assert_allclose(mixer(x)[0].detach(), expected, rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("states", first(1, [4, 70]))
@pytest.mark.parametrize("dtype", first(1, [torch.float32, torch.float64]))
def test_gss_over_sixteen_times_the_length(dtype: torch.dtype, states: int) -> None:
    """2048 tokens at once, where it was made for 128, and by the recurrence."""
    torch.manual_seed(0)
    mixer = GSSConfig(state_dim=states).build(16, 128).to(dtype)
    x = drawn(1, 2048, 16).to(dtype)
    with torch.no_grad():
        whole = mixer(x)
        with use(diagonal_states="reference"):
            stepped = mixer(x)
    assert bool(whole.isfinite().all())
    close = 1e-10 if dtype == torch.float64 else 1e-4
    assert float((whole - stepped).abs().max()) < close * float(stepped.abs().max())


def test_reset_draws_its_parameters_again() -> None:
    mixer = built(channels=3, state_dim=400)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.fill_(7.0)
    mixer.reset(0.01)
    assert all(float(each.weight.detach().abs().max()) < 0.1 for each in (mixer.w_u, mixer.w_v, mixer.w_y, mixer.w_out))
    for own in (mixer.log_rate, mixer.log_frequency, mixer.c):
        assert 0.9 < float(own.detach().std()) < 1.1
    assert mixer.norm.weight.detach().tolist() == [1.0] * 3


def test_its_rates_do_not_decay() -> None:
    mixer = built(state_dim=3)
    groups = mixer.param_groups()
    assert sum(len(group["params"]) for group in groups) == len(list(mixer.parameters()))
    fixed = {id(p) for group in groups if group.get("weight_decay") == 0 for p in group["params"]}
    assert fixed == {id(mixer.log_rate), id(mixer.log_frequency)}


def of_gss(x: Array, w: Weights) -> Array:
    return gss(x, of_pairs(w, "C"), **GUARDS["gss"])


LETTERS = {
    **{"log_rate": "a", "log_frequency": "b", "c": "C", "d": "D", "norm.weight": "gain", "norm.bias": "shift"},
    **{"w_u.weight": "w_u", "w_v.weight": "w_v", "w_y.weight": "w_y", "w_out.weight": "w_o"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "gss": ({"kind": "gss", "state_dim": 6}, of_gss),
    "gss, 3 channels": ({"kind": "gss", "state_dim": 5, "channels": 3, "width": 7}, of_gss),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_gss_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_gss_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)


@pytest.mark.parametrize("case", ["gss, 3 channels"])
def test_gss_is_nearly_the_paper_without_its_guard(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_without_guards(*EQUATIONS[case], LETTERS, monkeypatch)
