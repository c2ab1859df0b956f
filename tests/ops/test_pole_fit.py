"""Poles for taps: exact where taps are sums of waves, close elsewhere, and never beyond the stated bound."""

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.ops.state_space import pole_fit
from seqloom.ops.state_space.pole_fit import Poles, bound, fit, largest, response, starts
from seqloom.ops.state_space.pole_fit.refine import refine
from seqloom.ops.state_space.pole_fit.weights import Target, fit_weights, misfit, waves

WAVES = [
    (32, (0.5,)),
    (32, (0.9,)),
    (64, (0.9, 0.5, -0.3)),
    (64, (0.97, 0.9 + 0.2j, 0.3 + 0.6j)),
    (128, (0.999, 0.98 + 0.1j, 0.5 + 0.5j, 0.2)),
    (33, (0.9 + 0.1j, 0.8 + 0.3j, 0.7 + 0.5j, 0.1 + 0.8j)),
    (700, (0.999, 0.99, 0.97, 0.9, 0.7)),
]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def summed(L: int, poles: tuple[complex, ...], D: int = 4) -> Tensor:
    """Taps (L, D) that are Σ Re c λ^k, and something else at lag 0."""
    c = torch.view_as_complex(drawn(D, len(poles), 2))
    powers = torch.stack(
        [torch.tensor([complex(pole) ** k for k in range(L)], dtype=torch.complex128) for pole in poles]
    )
    w = (c @ powers).real.T.contiguous()
    w[0] += drawn(D, seed=1)
    return w


def error(w: Tensor, poles: Poles) -> float:
    """Of the worst channel, over its norm."""
    return float(((response(poles, len(w)) - w).norm(dim=0) / w.norm(dim=0)).max())


@pytest.mark.slow
@pytest.mark.parametrize(("L", "poles"), WAVES, ids=str)
def test_sums_of_waves_are_recovered(L: int, poles: tuple[complex, ...]) -> None:
    w = summed(L, poles)
    for more in (0, 2):
        result = fit(w, len(poles) + more, beyond=0.0)
        assert error(w, result) < 1e-8
        assert (result.rates.real < 0).all()
    exact = fit(w, len(poles), beyond=0.0)
    for d in range(4):
        near = np.sort_complex(torch.exp(exact.rates[d]).numpy())
        np.testing.assert_allclose(near, np.sort_complex(np.array(poles)), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("L", [2, 3, 4, 5, 9, 32, 33])
def test_half_as_many_poles_as_taps_meet_any(L: int) -> None:
    w = drawn(L, 3)
    assert error(w, fit(w, largest(L), beyond=0.0)) < 1e-8
    held = fit(w, largest(L))
    assert error(w, held) < 1e-4
    assert (bound(w, held)[1] < 0.02 * w.abs().sum(0)).all()  # and say next to nothing beyond them


@pytest.mark.slow
@pytest.mark.parametrize("L", [1, 2, 7, 40])
@pytest.mark.parametrize("beyond", [0.0, 1.0])
def test_taps_with_little_information(L: int, beyond: float) -> None:
    first = torch.zeros(L, 1)
    first[0] = 3.0
    for w in (torch.zeros(L, 2), first):
        result = fit(w, 1, beyond=beyond)
        assert torch.equal(response(result, 3 * L)[:L], w.double())
        assert float(bound(w, result)[1].max()) == 0
    alike = torch.full((L, 1), 2.0)
    assert error(alike, fit(alike, 1, beyond=0.0)) < 1e-6
    single = torch.zeros(L, 1)
    single[-1] = 1.0
    result = fit(single, largest(L), beyond=beyond)
    assert float((response(result, L) - single).abs().max()) < 1e-4


@pytest.mark.slow
def test_taps_shared_by_all_are_one_channel() -> None:
    w = drawn(20)
    one, other = fit(w, 3), fit(w[:, None], 3)
    assert one.rates.shape == one.weights.shape == (1, 3)
    np.testing.assert_allclose(response(one, 40), response(other, 40), atol=1e-6)  # memory is summed as it lies


@pytest.mark.slow
def test_a_channel_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    w, expected = drawn(24, 5) * torch.tensor([1.0, 1e-6, 1e6, 0.0, 3.0], dtype=torch.float64), []
    whole = response(fit(w, 4), 48)
    monkeypatch.setattr(pole_fit, "ROOM", 1)
    pieces = response(fit(w, 4, advance=expected.append), 48)
    assert expected == [1] * 5
    scale = w.norm(dim=0).clamp(min=1e-300)
    np.testing.assert_allclose(pieces / scale, whole / scale, atol=1e-3)  # steps that are taken or not part their ways
    error_of = ((pieces[:24] - w).norm(dim=0) / scale)[[0, 1, 2, 4]]
    np.testing.assert_allclose(error_of, ((whole[:24] - w).norm(dim=0) / scale)[[0, 1, 2, 4]], rtol=1e-2)
    assert (whole[:, 3] == 0).all()


@pytest.mark.parametrize(
    ("taps", "order", "words"),
    [
        (torch.zeros(8, 2), 0, "8 taps are fitted by 1 … 4 poles, not by 0"),
        (torch.zeros(8, 2), 5, "1 … 4 poles, not by 5"),
        (torch.zeros(1), 2, "1 … 1 poles, not by 2"),
        (torch.zeros(0, 2), 1, "not to"),
        (torch.zeros(4, 2, 2), 1, r"\(4, 2, 2\)"),
        (torch.tensor([1.0, float("nan"), 0.0]), 1, "not all finite"),
    ],
)
def test_what_cannot_be_fitted(taps: Tensor, order: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fit(taps, order)


def kung(w: np.ndarray, order: int) -> float:
    """The error of balanced truncation of the finite filter w (L,), by a whole singular value decomposition."""
    h = np.array([[w[i + j + 1] if i + j + 1 < len(w) else 0.0 for j in range(len(w) - 1)] for i in range(len(w) - 1)])
    U = np.linalg.svd(h)[0][:, : 2 * order]
    poles = np.linalg.eigvals(U.T @ np.vstack([U[1:], 0 * U[:1]]))
    A = poles[None] ** np.arange(1, len(w))[:, None]
    A = np.hstack([A.real, A.imag])
    return float(np.linalg.norm(A @ np.linalg.lstsq(A, w[1:], rcond=1e-9)[0] - w[1:]) / np.linalg.norm(w))


@pytest.mark.slow
@pytest.mark.parametrize(("L", "order", "fading"), [(48, 6, 0.0), (48, 6, 0.05), (48, 6, 0.2), (64, 20, 0.0)])
def test_no_worse_than_balanced_truncation(L: int, order: int, fading: float) -> None:
    """Taps that are noise, fading or not: both have 2N real numbers of state, and ours hold what lies beyond too."""
    w = drawn(L, 4) * torch.exp(-fading * torch.arange(float(L)))[:, None]
    off = (response(fit(w, order), L) - w).norm(dim=0) / w.norm(dim=0)
    theirs = [kung(w[:, d].numpy(), order) for d in range(4)]
    assert float(off.mean()) <= 1.02 * np.mean(theirs)


def test_the_random_subspace_holds_the_singular_vectors() -> None:
    w = (drawn(60, 3) * torch.exp(-0.3 * torch.arange(60.0))[:, None]).T
    U = starts.leading(w, 60, 4)
    for d in range(3):
        h = torch.tensor([[float(w[d, i + j]) if i + j < 60 else 0.0 for j in range(60)] for i in range(60)]).double()
        expected = torch.linalg.svd(h)[0][:, :4]
        np.testing.assert_allclose(U[d] @ U[d].T, expected @ expected.T, atol=1e-6)


@pytest.mark.slow
def test_refinement_finds_waves_from_nearby() -> None:
    target = Target.of(summed(40, (0.9 + 0.2j, 0.6, 0.3 + 0.5j)).T, 0.0)
    near = torch.log(torch.tensor([[0.88 + 0.22j, 0.63, 0.33 + 0.48j]] * 4, dtype=torch.complex128))
    first, then = (refine(near, fit_weights(near, target), target, steps).cost for steps in (0, 120))
    assert (first > 1e-3).all()
    assert (then < 1e-11).all()


@pytest.mark.slow
def test_refinement_makes_no_channel_worse() -> None:
    target = Target.of(drawn(30, 6).T, 1.0)
    rates, weights = starts.circle(target, 4)
    costs = torch.stack([refine(rates, weights, target, steps).cost for steps in range(12)])
    assert (costs.diff(dim=0) <= 0).all()
    assert (costs[-1] < costs[0]).all()


def test_weights_are_where_the_gradient_of_the_misfit_is_0() -> None:
    target = Target.of(drawn(12, 3).T, 1.0)
    rates = torch.complex(-drawn(3, 4).exp(), drawn(3, 4, seed=1))
    c = fit_weights(rates, target).requires_grad_()
    (slope,) = torch.autograd.grad(misfit(waves(rates, target), c, target)[1].sum(), c)
    assert float(slope.abs().max()) < 1e-6


@pytest.mark.slow
def test_growing_taps_have_fading_poles() -> None:
    """And where a stream reads on, waves fade to 1/e within the window at least."""
    w = (1.1 ** torch.arange(30.0))[:, None]
    for beyond, slowest in ((0.0, 0.0), (1.0, 1 / 30)):
        result = fit(w, 3, beyond=beyond)
        assert (result.rates.real < -slowest * (1 - 1e-9)).all()
        assert result.weights.isfinite().all()


@pytest.mark.slow
def test_float32_holds_the_fitted_poles() -> None:
    """Of noise at an order that cannot meet it: no waves that only cancel each other."""
    w = drawn(64, 8)
    result = fit(w, 10)
    rounded = Poles(result.rates.to(torch.complex64), result.weights.to(torch.complex64), result.direct.float())
    assert float((response(rounded, 64) - response(result, 64)).abs().max()) < 1e-3


def last(z: Tensor, w: Tensor) -> Tensor:
    """The sum over lags of z (B, T, D) under w (T, D), at the last position: (B, D)."""
    return (z.flip(1) * w).sum(1)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 7])
def test_the_bound_is_reached_and_never_passed(order: int) -> None:
    """Inputs with the signs of what is off reach the sum inside the window; with those of the rest, nearly all."""
    L, T = 20, 1000
    w = drawn(L, 3)
    result = fit(w, order)
    inside, beyond = bound(w, result)
    off = response(result, T)
    off[:L] -= w
    for d in range(3):
        z = torch.zeros(1, T, 3, dtype=torch.float64)
        z[0, -L:, d] = off[:L, d].sign().flip(0)
        np.testing.assert_allclose(abs(last(z, off)[0, d]), inside[d], rtol=1e-12)
        z[0, :, d] = off[:, d].sign().flip(0)
        most = abs(last(z, off)[0, d])
        assert inside[d] + 0.999 * beyond[d] <= most <= (inside + beyond)[d] * (1 + 1e-12)
    z = drawn(4, T, 3).clamp(-1, 1)
    assert (last(z, off).abs() <= inside + beyond).all()


def test_the_bound_counts_what_is_not_summed() -> None:
    rate = torch.full((1, 1), -1e-4, dtype=torch.complex128)
    slow = Poles(rate, torch.full_like(rate, 0.5), torch.zeros(1))
    taps = torch.ones(10, 1, dtype=torch.float64)
    inside, beyond = bound(taps, slow)
    whole = 1 / -np.expm1(-1e-4)
    kept = sum(np.exp(-1e-4 * k) for k in range(10))
    np.testing.assert_allclose([float(inside), float(beyond)], [10 - kept, whole - kept], rtol=1e-9)
