"""HiPPO's matrices: entries as published, what their states hold of an input, and LegS as normal less rank 1."""

import math

import numpy as np
import pytest
import torch

from seqloom.ops.state_space.discretise import bilinear
from seqloom.ops.state_space.hippo import MEASURES, lagt, legs, legt, normal

R3, R5, R15 = math.sqrt(3), math.sqrt(5), math.sqrt(15)
PUBLISHED = {
    "legs": (legs(3), [[-1, 0, 0], [-R3, -2, 0], [-R5, -R15, -3]], [1, R3, R5]),
    "legt": (legt(3), [[-1, R3, -R5], [-R3, -3, R15], [-R5, -R15, -5]], [1, R3, R5]),
    "legt, lmu": (legt(3, "lmu"), [[-1, -1, -1], [3, -3, -3], [-5, 5, -5]], [1, -3, 5]),
    "lagt": (lagt(3), [[-1, 0, 0], [-1, -1, 0], [-1, -1, -1]], [1, 1, 1]),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_entries(name: str) -> None:
    (A, B), expected, driven = PUBLISHED[name]
    assert A.dtype == B.dtype == torch.float64
    np.testing.assert_allclose(A.numpy(), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(B.numpy(), driven, rtol=0, atol=1e-14)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("N", [1, 2, 16])
def test_every_measure_forgets(measure: str, N: int) -> None:
    assert float(torch.linalg.eigvals(MEASURES[measure](N)[0]).real.max()) < 0


def legendre(n: int, s: np.ndarray) -> np.ndarray:
    """(2n+1)^½ P_n on [0, 1], of length 1."""
    return math.sqrt(2 * n + 1) * np.polynomial.legendre.Legendre.basis(n)(2 * s - 1)


def on_unit(N: int, f: np.ndarray, s: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.array([(weight * f * legendre(n, s)).sum() for n in range(N)])


def nodes() -> tuple[np.ndarray, np.ndarray]:
    s, weight = np.polynomial.legendre.leggauss(40)
    return (s + 1) / 2, weight / 2


@pytest.mark.parametrize("power", [0, 1, 2, 5, 9])
def test_legs_holds_the_whole_history_of_a_polynomial(power: int) -> None:
    """Of u = x^p its coefficients on [0, t] are t^p times those on [0, 1], so t c' = p c = A c + B at t = 1."""
    N = 8
    A, B = (x.numpy() for x in legs(N))
    s, weight = nodes()
    c = on_unit(N, s**power, s, weight)
    np.testing.assert_allclose(power * c, A @ c + B, rtol=0, atol=1e-11)
    if power < N:
        again = sum(c[n] * legendre(n, s) for n in range(N))
        np.testing.assert_allclose(again, s**power, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scaling", ["orthonormal", "lmu"])
@pytest.mark.parametrize("power", [0, 1, 4, 7])
def test_legt_holds_the_last_unit_of_a_polynomial(scaling: str, power: int) -> None:
    """c of u on [t-1, t] changes by c of u', and A c + B u(t) says the same, exactly up to degree N-1."""
    N, t = 8, 0.3
    A, B = (x.numpy() for x in legt(N, scaling))
    s, weight = nodes()
    x = t - 1 + s
    c, change = (on_unit(N, f, s, weight) for f in (x**power, power * x ** max(power - 1, 0)))
    scale = np.array([(2 * n + 1) ** 0.5 * (-1) ** n for n in range(N)]) if scaling == "lmu" else np.ones(N)
    np.testing.assert_allclose(scale * change, A @ (scale * c) + B * t**power, rtol=0, atol=1e-11)


@pytest.mark.parametrize("power", [0, 1, 3, 6])
def test_lagt_holds_a_fading_history(power: int) -> None:
    N, t = 5, 0.3
    A, B = (x.numpy() for x in lagt(N))
    s, weight = np.polynomial.laguerre.laggauss(30)
    basis = [np.polynomial.laguerre.Laguerre.basis(n)(s) for n in range(N)]
    c, change = (
        np.array([(weight * each * f).sum() for each in basis])
        for f in ((t - s) ** power, power * (t - s) ** max(power - 1, 0))
    )
    np.testing.assert_allclose(change, A @ c + B * t**power, rtol=0, atol=1e-9)


@pytest.mark.slow
def test_legs_compresses_a_long_history_step_by_step() -> None:
    """2,000 samples of a wave into 24 numbers, with steps 1/t, and back."""
    N, T = 24, 2000
    A, B = legs(N)
    u = torch.sin(torch.linspace(0, 12, T, dtype=torch.float64)) + 0.5
    x = torch.zeros(N, dtype=torch.float64)
    for t in range(T):
        A_bar, B_bar = bilinear(A, B, 1 / (t + 1))
        x = A_bar @ x + B_bar * u[t]
    s = (np.arange(T) + 0.5) / T
    again = sum(float(x[n]) * legendre(n, s) for n in range(N))
    assert np.abs(again - u.numpy())[50:].max() < 0.02


@pytest.mark.parametrize("N", [2, 4, 10, 64])
def test_legs_is_normal_less_rank_1_in_pairs(N: int) -> None:
    eigenvalues, V, P, B = normal(N)
    assert eigenvalues.shape == P.shape == B.shape == (N // 2,)
    assert V.shape == (N, N // 2)
    whole = [torch.cat([x, x.conj()], -1) for x in (eigenvalues, V, P, B)]
    eigenvalues, V, P, B = whole
    A, driven = legs(N)
    again = V @ (eigenvalues.diag() - torch.outer(P, P.conj())) @ V.mH
    torch.testing.assert_close(again, A.to(again), rtol=1e-12, atol=1e-11)
    torch.testing.assert_close(V @ B, driven.to(B), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(V.mH @ V, torch.eye(N).to(V), rtol=0, atol=1e-12)
    half = eigenvalues[: N // 2]
    assert bool((half.real == -0.5).all())
    assert bool((half.imag > 0).all())
    assert bool((half.imag.diff() > 0).all())
    assert bool((P.imag == 0).all())
    assert bool((P.real > 0).all())


@pytest.mark.parametrize("N", [0, 1, 3])
def test_no_pairs_of_an_odd_number(N: int) -> None:
    with pytest.raises(ValueError, match="even number of states"):
        normal(N)
