"""The state-space recurrences against each other and against properties that their papers prove."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.mixers.recurrences import gss, hippo, hyena, s4, s4d, s5, ssm
from tests.mixers.recurrences.arithmetic import Array

RNG = np.random.default_rng(3)
N, T = 6, 9
U = RNG.normal(size=T)
MEASURES = {"legs": hippo.legs, "legt": hippo.legt, "lagt": hippo.lagt_of_s4}


def near(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-10))


def test_exponential() -> None:
    turn = np.array([[0.0, -9.0], [9.0, 0.0]])
    assert near(ssm.exponential(turn), np.array([[math.cos(9), -math.sin(9)], [math.sin(9), math.cos(9)]]))
    assert near(ssm.exponential(np.diag([-30.0, 0.5])), np.diag(np.exp([-30.0, 0.5])))


@pytest.mark.parametrize("measure", MEASURES)
def test_solution_and_zero_order_hold(measure: str) -> None:
    """Against NumPy's solver; ∫ e^{sA} ds B is A^{-1} (e^{ΔA} - I) B."""
    A, B = MEASURES[measure](N)
    kept, new = ssm.zero_order_hold(A, B, 0.3)
    assert near(ssm.solved(A, B[:, None])[:, 0], np.linalg.solve(A, B))
    assert near(new, np.linalg.solve(A, (kept - np.eye(N)) @ B))


@pytest.mark.parametrize("rule", ["euler", "backward", "bilinear", "zoh", "mamba"])
def test_rules_meet_for_short_steps(rule: str) -> None:
    """Each follows e^{ΔA} to its order: halving Δ divides the error of x' = Ax + B after 1 by 2, or by 4."""
    A, B = hippo.legs(3)
    exact, errors = ssm.zero_order_hold(A, B, 1.0)[1], []
    for steps in (64, 128):
        x = ssm.states(np.ones(steps), *ssm.RULES[rule](A, B, 1 / steps))[-1]
        errors.append(float(np.abs(x - exact).max()))
    if rule == "zoh":
        assert max(errors) < 1e-12
    else:
        assert errors[0] / errors[1] == pytest.approx(4 if rule == "bilinear" else 2, rel=0.1)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_hippo_matrix_is_normal_less_a_low_rank(measure: str) -> None:
    A = MEASURES[measure](N)[0]
    P = hippo.low_rank(measure, N)
    normal = A + P @ P.T
    assert near(normal @ normal.T, normal.T @ normal)
    assert np.linalg.eigvals(normal).real.max() < 1e-9
    assert not near(A @ A.T, A.T @ A)


@pytest.mark.parametrize("of", [hippo.legs, hippo.legt, hippo.legt_of_theorem_1, hippo.lagt])
def test_a_constant_stays_the_first_polynomial(of: Callable[[int], tuple[Array, Array]]) -> None:
    A, B = of(N)
    assert near(A[:, 0] + B, np.zeros(N))


def test_legs_keeps_a_slope() -> None:
    """f(x) = x is t (1/2, 1/(2√3), 0, …) in polynomials on [0, t] of length 1: c' = (A c + B f) / t."""
    A, B = hippo.legs(N)
    c = np.array([0.5, 0.5 / math.sqrt(3), *np.zeros(N - 2)])
    assert near(A @ c + B, c)


def test_both_scales_of_legt_are_one_system() -> None:
    """c_n of Theorem 1 is (2n+1)^{1/2} (-1)^n times c_n of length 1."""
    scale = np.array([(2 * n + 1) ** 0.5 * (-1) ** n for n in range(N)])
    (A, B), (other_A, other_B) = hippo.legt(N, 2.0), hippo.legt_of_theorem_1(N, 2.0)
    assert near(scale[:, None] * A / scale, other_A)
    assert near(scale * B, other_B)


def diagonal(width: int) -> dict[str, Array]:
    shape = (width, N // 2)
    return {
        "a": RNG.normal(size=shape) * 0.5,
        "b": RNG.normal(size=shape),
        "C": RNG.normal(size=shape) + 1j * RNG.normal(size=shape),
        "D": RNG.normal(size=width),
        "log_delta": RNG.normal(size=width) * 0.3,
    }


@pytest.mark.parametrize("rule", ["zoh", "bilinear"])
def test_s4_without_a_rank_is_s4d(rule: str) -> None:
    w, x = diagonal(2), RNG.normal(size=(T, 2))
    rate = -np.exp(w["a"]) + 1j * w["b"]
    dense = {"L": rate, "P": 0 * rate, "B": np.ones_like(rate), "delta": np.exp(w["log_delta"])}
    assert near(s4.of_channels(x, {**w, **dense}, rule), s4d.of_channels(x, w, rule))


def test_s4_of_hippo_is_legs() -> None:
    """Diagonalised, LegS reads the same: P and B are turned by the eigenvectors of the normal part."""
    A, B = hippo.legs(N)
    P, C = hippo.low_rank("legs", N)[:, 0], RNG.normal(size=N)
    Lambda, V = np.linalg.eig(A + np.outer(P, P))
    pick = Lambda.imag > 0
    w = {"L": Lambda[pick], "P": (V.conj().T @ P)[pick], "B": (V.conj().T @ B)[pick], "C": (C @ V)[pick][None]}
    result = s4.of_channels(U[:, None], {**w, "D": np.zeros(1), "delta": np.array([0.2])}, "bilinear")[:, 0]
    assert near(result, ssm.ssm(U, *ssm.bilinear(A, B, 0.2), C, 0.0))


def test_s5_is_one_dense_system_with_many_inputs() -> None:
    half, width = 3, 2
    x = RNG.normal(size=(T, width))
    shapes = {"L": (half,), "B": (half, width), "C": (width, half)}
    w = {name: RNG.normal(size=shape) + 1j * RNG.normal(size=shape) for name, shape in shapes.items()}
    w |= {"log_delta": RNG.normal(size=half) * 0.3, "D": RNG.normal(size=width)}
    rate, scale = s4.with_conjugates(w["L"]), np.exp(np.tile(w["log_delta"], 2))
    B, C = s4.with_conjugates(w["B"].T).T, s4.with_conjugates(w["C"])
    expected = x * w["D"]
    for a in range(width):
        for b in range(width):
            stepped = ssm.zero_order_hold(np.diag(rate * scale), B[:, a] * scale, 1.0)
            expected[:, b] += ssm.ssm(x[:, a], *stepped, C[b], 0.0).real
    assert near(s5.of_state(x, w), expected)


def test_dss_is_a_held_diagonal_of_which_the_real_part_is_read() -> None:
    w = {"a": RNG.normal(size=N), "b": RNG.normal(size=N), "C": RNG.normal(size=(1, N)) + 1j, "D": np.array([0.4])}
    stepped = ssm.zero_order_hold(np.diag(-np.exp(w["a"]) + 1j * np.exp(w["b"])), np.ones(N), 1.0)
    assert near(gss.dss(U[:, None], w)[:, 0], ssm.ssm(U, *stepped, w["C"][0], 0.4).real)


def test_hyena_is_a_product_of_matrices() -> None:
    """y = D_x^N S_h^N … D_x^1 S_h^1 v, section 3.2."""
    xs, hs = RNG.normal(size=(2, T, 1)), RNG.normal(size=(2, T, 1))
    matrix = np.eye(T)
    for x, h in zip(xs, hs, strict=True):
        toeplitz = np.array([[h[t - s, 0] if t >= s else 0.0 for s in range(T)] for t in range(T)])
        matrix = np.diag(x[:, 0]) @ toeplitz @ matrix
    result = hyena.operator(list(xs), U[:, None], list(hs), np.zeros((2, 1)))
    assert near(result[:, 0], matrix @ U)
