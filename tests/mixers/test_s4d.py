"""S4D: how its states begin, its kernel by plain powers, memory, and sequences longer than any it was made for."""

import cmath
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers.state_space.s4d import S4D, S4DConfig, frequencies
from seqloom.ops.backends import use
from tests.at_once import first
from tests.mixers.equation import Case, Recurrence, check_equation, check_long
from tests.mixers.recurrences.eigenvalues import of_pairs
from tests.mixers.recurrences.s4d import s4d

PUBLISHED = {
    "lin": (8, [0.0, math.pi, 2 * math.pi, 3 * math.pi]),
    "inv": (8, [8 / math.pi * 7, 8 / math.pi * (8 / 3 - 1), 8 / math.pi * (8 / 5 - 1), 8 / math.pi * (8 / 7 - 1)]),
}


def built(dim: int = 3, **settings: object) -> S4D:
    torch.manual_seed(0)
    return S4DConfig.model_validate(settings).build(dim, None).double()


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def weight(mixer: S4D, c: int, lag: int) -> float:
    """K_l of channel c as the paper writes it, from the parameters by name."""
    step, total = math.exp(mixer.log_step[c].detach()), 0.0
    for a, omega, (real, imag) in zip(
        mixer.log_rate[c].tolist(), mixer.frequency[c].tolist(), mixer.c[c].tolist(), strict=True
    ):
        A = complex(-math.exp(a), omega)
        if mixer.method == "zoh":
            kept, new = cmath.exp(step * A), (cmath.exp(step * A) - 1) / A
        else:
            kept, new = (1 + step * A / 2) / (1 - step * A / 2), step / (1 - step * A / 2)
        total += 2 * (complex(real, imag) * new * kept**lag).real
    return total


@pytest.mark.parametrize("init", PUBLISHED)
def test_initial_states_are_as_published(init: str) -> None:
    state_dim, expected = PUBLISHED[init]
    mixer = built(state_dim=state_dim, init=init)
    for c in range(3):
        np.testing.assert_allclose(mixer.frequency[c].detach(), expected, rtol=1e-6)
    np.testing.assert_allclose(-mixer.log_rate.exp().detach(), -0.5, rtol=1e-6)


def test_legs_is_initialized_with_the_eigenvalues_of_its_normal_part() -> None:
    n = np.arange(16)
    A = -np.sqrt(np.outer(2 * n + 1, 2 * n + 1))
    A = np.where(n[:, None] > n, A, np.diag(-(n + 1.0)))
    result = np.linalg.eigvals(A + np.outer(np.sqrt(n + 0.5), np.sqrt(n + 0.5)))
    np.testing.assert_allclose(result.real, -0.5, atol=1e-8)
    np.testing.assert_allclose(frequencies("legs", 16), np.sort(result.imag[result.imag > 0]), rtol=1e-9)


def test_initial_steps_are_between_a_thousandth_and_a_tenth() -> None:
    mixer = built(dim=2000)
    steps = mixer.log_step.detach().exp()
    assert 1e-3 <= float(steps.min()) < 1.1e-3
    assert 0.09 < float(steps.max()) <= 0.1
    assert abs(float(mixer.log_step.detach().mean()) - math.log(1e-2)) < 0.1
    memory = next(view for view in mixer.plots(drawn(1, 2, 2000)) if view.name == "memory").values.detach()
    assert 19.9 < float(memory.min()) < float(memory.max()) < 2001  # 1 / (Δ/2)


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
@pytest.mark.parametrize("init", ["lin", "inv", "legs"])
def test_the_kernel_of_s4d_is_made_of_powers(init: str, method: str) -> None:
    mixer = built(state_dim=6, init=init, method=method)
    expected = np.array([[weight(mixer, c, lag) for c in range(3)] for lag in range(20)])
    view = next(view for view in mixer.plots(drawn(1, 20, 3)) if view.name == "kernel")
    np.testing.assert_allclose(view.values.detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["zoh", "bilinear"])
def test_the_whole_is_a_sum_over_lags(method: str) -> None:
    mixer, x = built(state_dim=4, method=method), drawn(2, 9, 3)
    y = np.zeros(x.shape)
    for b, t, c in np.ndindex(*x.shape):
        lags = sum(weight(mixer, c, lag) * float(x[b, t - lag, c]) for lag in range(t + 1))
        total = lags + float(mixer.d[c].detach()) * float(x[b, t, c])
        y[b, t, c] = total * (1 + math.erf(total / math.sqrt(2))) / 2
    expected = y @ mixer.w_out.weight.detach().numpy().T + mixer.w_out.bias.detach().numpy()
    np.testing.assert_allclose(mixer(x).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", first(1, [torch.float32, torch.float64]))
def test_s4d_over_sixteen_times_the_length(dtype: torch.dtype) -> None:
    """4096 tokens at once, where it was made for 256, and by the recurrence."""
    torch.manual_seed(0)
    mixer = S4DConfig(state_dim=8, init="inv").build(4, 256).to(dtype)
    x = drawn(1, 4096, 4).to(dtype)
    with torch.no_grad():
        whole = mixer(x)
        with use(diagonal_states="reference"):
            stepped = mixer(x)
    assert bool(whole.isfinite().all())
    close = 1e-10 if dtype == torch.float64 else 1e-4
    assert float((whole - stepped).abs().max()) < close * float(stepped.abs().max())


def test_reset_keeps_the_initial_dynamics() -> None:
    mixer = built(state_dim=4)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.fill_(7.0)
    mixer.reset(0.01)
    assert float(mixer.w_out.weight.detach().abs().max()) < 0.1
    assert float(mixer.log_step.detach().max()) < math.log(0.11)
    np.testing.assert_allclose(mixer.frequency[0].detach(), [0, math.pi])
    assert float(mixer.c.detach().abs().max()) < 5


def test_the_dynamics_do_not_decay() -> None:
    mixer = built(state_dim=4)
    groups = mixer.param_groups()
    assert sum(len(group["params"]) for group in groups) == len(list(mixer.parameters()))
    fixed = {id(p) for group in groups if group.get("weight_decay") == 0 for p in group["params"]}
    assert fixed == {id(mixer.log_step), id(mixer.log_rate), id(mixer.frequency)}


@pytest.mark.parametrize("settings", [{"state_dim": 3}, {"state_dim": 0}, {"init": "lint"}, {"method": "euler"}])
def test_what_is_no_setting_is_an_error(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        S4DConfig.model_validate(settings)


def s4d_of(rule: str) -> Recurrence:
    return lambda x, w: s4d(x, of_pairs(w, "C"), rule)


LETTERS = {
    **{"log_step": "log_delta", "log_rate": "a", "frequency": "b", "c": "C", "d": "D"},
    **{"w_out.weight": "w_out", "w_out.bias": "b_out"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "s4d": ({"kind": "s4d", "state_dim": 8}, s4d_of("zoh")),
    "s4d, bilinear": ({"kind": "s4d", "state_dim": 6, "method": "bilinear"}, s4d_of("bilinear")),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_s4d_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_s4d_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)
