"""S4: forward and steps against dense matrices, how it begins, what it asks of the optimizer, and its length."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from seqloom.mixers import mixer_config
from seqloom.mixers.state_space.s4 import S4
from seqloom.ops.backends import use
from seqloom.ops.state_space.hippo import legs
from tests.mixers.equation import Case, check_equation, check_long
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.eigenvalues import clipped, of_pairs
from tests.mixers.recurrences.s4 import s4

DIM = 6


def build_s4(dim: int = DIM, **settings: object) -> S4:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "s4", **settings}).build(dim, None)
    assert isinstance(mixer, S4)
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both(pairs: Tensor) -> Tensor:
    half = torch.view_as_complex(pairs.detach())
    return torch.cat([half, half.conj()], -1)


def dense(mixer: S4, x: Tensor) -> Tensor:
    """The mixer's output by powers of dense matrices."""
    P = both(mixer.p)
    A, eye = both(mixer.eigenvalues).diag() - torch.outer(P, P.conj()), torch.eye(2 * mixer.pairs)
    y = mixer.d.detach() * x
    for c in range(x.shape[2]):
        step = mixer.log_step[c].exp().detach()
        A_bar = torch.linalg.solve(eye - step / 2 * A, eye + step / 2 * A)
        B_bar = torch.linalg.solve(eye - step / 2 * A, step * both(mixer.b)[:, None])[:, 0]
        taps = [(both(mixer.c)[c] @ torch.linalg.matrix_power(A_bar, n) @ B_bar).real for n in range(x.shape[1])]
        for t in range(x.shape[1]):
            for n in range(t + 1):
                y[:, t, c] += taps[n] * x[:, t - n, c]
    return mixer.w_out(gelu(y))


@pytest.mark.parametrize("T", [1, 2, 7, 16, 33])
@pytest.mark.parametrize("state_dim", [2, 12])
def test_forward_and_steps_are_the_dense_system(state_dim: int, T: int) -> None:
    mixer, x = build_s4(state_dim=state_dim).double(), draw(2, T, DIM)
    state, steps = mixer.start(2), []
    with torch.no_grad():
        expected = dense(mixer, x)
        for t in range(T):
            y, state = mixer.step(x[:, t], state, reuse=t % 2 == 0)
            steps.append(y)
        torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-10)
        torch.testing.assert_close(torch.stack(steps, 1), expected, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_it_is_initialized_as_hippo() -> None:
    """A system that starts as LegS: its kernels are those of LegS under the same steps, for a C turned back."""
    mixer = build_s4(dim=2, state_dim=8).double()
    A, B = legs(8)
    P = both(mixer.p)
    again = both(mixer.eigenvalues).diag() - torch.outer(P, P.conj())
    for power in range(1, 9):  # equal traces of powers are equal eigenvalues; float32 rounds what it begins with
        actual, expected = (torch.linalg.matrix_power(x, power).diagonal().sum() for x in (again, A.to(again)))
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close((both(mixer.b).conj() @ both(mixer.b)).real, B @ B, rtol=1e-6, atol=0)
    steps = build_s4(dim=4096).log_step.detach().exp()
    assert 1e-3 <= float(steps.min()) < 1.05e-3
    assert 0.095 < float(steps.max()) <= 0.1
    assert float(steps.log10().mean()) == pytest.approx(-2, abs=0.03)


def test_reset_initializes_again() -> None:
    mixer = build_s4(state_dim=8)
    begun = {name: value.detach().clone() for name, value in mixer.named_parameters()}
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.fill_(3.0)
    mixer.reset(0.02)
    for name in ("eigenvalues", "p", "b"):
        assert torch.equal(mixer.get_parameter(name), begun[name])
    assert float(mixer.log_step.detach().exp().max()) <= 0.1
    assert float(mixer.w_out.weight.detach().std()) < 0.04


def test_dynamics_have_a_rate_of_their_own_and_no_decay() -> None:
    mixer = build_s4(lr=5e-4)
    plain, special = mixer.param_groups()
    assert set(plain) == {"params"}
    assert (special["lr"], special["weight_decay"]) == (5e-4, 0.0)
    assert {id(p) for p in special["params"]} == {id(p) for p in (mixer.log_step, mixer.eigenvalues, mixer.p, mixer.b)}
    assert len(plain["params"]) + len(special["params"]) == len(list(mixer.parameters()))


@pytest.mark.slow
@pytest.mark.parametrize("T", [8192, 10_007])
def test_long_sequences_of_s4_in_float32(T: int) -> None:
    """Any length, a prime too: outputs and gradients are finite, and reading in pieces equals the whole."""
    mixer, x = build_s4(dim=4, state_dim=16), draw(1, T, 4).float()
    y = mixer(x)
    y.square().mean().backward()
    assert bool(y.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in mixer.parameters())
    with torch.no_grad():
        _, state = mixer.extend(x[:, : T - 100], mixer.start(1))
        last, _ = mixer.extend(x[:, T - 100 :], state)
        torch.testing.assert_close(last, y[:, T - 100 :], rtol=0, atol=2e-4)
        torch.testing.assert_close(mixer.double()(x.double()).float(), y, rtol=0, atol=2e-4)


@pytest.mark.slow
def test_nothing_grows_whatever_was_learned() -> None:
    mixer, x = build_s4(dim=4, state_dim=8).double(), torch.ones(1, 600, 4, dtype=torch.float64)
    with torch.no_grad():
        mixer.eigenvalues.copy_(3 * draw(4, 2).abs())
        mixer.p.copy_(5 * draw(4, 2, seed=1))
        mixer.log_step.copy_(draw(4, seed=2))
        y = mixer(x)
        with use(state_space="reference"):
            torch.testing.assert_close(mixer(x), y, rtol=1e-8, atol=1e-8)
    taps = mixer.plots(x)[0].values.detach()
    assert float(taps[300:].abs().max()) < float(taps[:300].abs().max())


@pytest.mark.parametrize("state_dim", [0, 3])
def test_states_come_in_pairs(state_dim: int) -> None:
    with pytest.raises(ValueError, match="state_dim"):
        mixer_config({"kind": "s4", "state_dim": state_dim})


@pytest.mark.slow
def test_it_learns_an_echo() -> None:
    """y_t = x_{t-20} of a few wide waves: the error falls to less than a tenth."""
    mixer = build_s4(dim=2, state_dim=16)
    groups = mixer.param_groups()
    groups[1] = {**groups[1], "lr": 1e-2}
    optimizer = torch.optim.AdamW(groups, lr=3e-2)
    time = torch.arange(100) / 15
    first = last = 0.0
    for n in range(300):
        phase = draw(8, 1, 2, seed=n).float() * 3
        x = torch.sin(time[:, None] + phase)
        loss = (mixer(x)[:, 40:] - x[:, 20:-20]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first, last = first or float(loss), float(loss)
    assert last < 0.1 * first


def of_s4(x: Array, w: Weights) -> Array:
    return s4(x, clipped(of_pairs({**w, "delta": np.exp(w["log_delta"])}, "L", "P", "B", "C")))


LETTERS = {
    **{"log_step": "log_delta", "eigenvalues": "L", "p": "P", "b": "B", "c": "C", "d": "D"},
    **{"w_out.weight": "w_out", "w_out.bias": "b_out"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "s4": ({"kind": "s4", "state_dim": 8}, of_s4),
    "s4, 2 states": ({"kind": "s4", "state_dim": 2}, of_s4),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_s4_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_s4_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)
