"""Seed 004's state spaces to the letter against HiPPO, LSSL, S4, S5 and Mamba. docs/errata.md has the list."""

import numpy as np
import pytest
import torch

from seqloom.mixers import mixer_config
from tests.mixers.recurrences import hippo, s5, s6, ssm
from tests.mixers.recurrences import printed_state_spaces as printed_ssm
from tests.mixers.recurrences.arithmetic import Array

T, D = 6, 4
RNG = np.random.default_rng(5)
V = RNG.normal(size=(T, D)) * 0.7
ONE = np.eye(D)


def near(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-12))


A, B = hippo.legs(D)
C = RNG.normal(size=D)


def test_004_eq_25_is_one_of_the_generalised() -> None:
    """Said: the generalised bilinear transform. Printed: its case α = 1/2, Tustin's; LSSL's has any α."""
    for result, right in zip(printed_ssm.bilinear_004_eq_25(A, B, 0.1), ssm.bilinear(A, B, 0.1), strict=True):
        assert near(result, right)
    for alpha in (0.0, 0.4, 1.0):
        assert not near(printed_ssm.bilinear_004_eq_25(A, B, 0.1)[1], ssm.generalised_bilinear(A, B, 0.1, alpha)[1])


def test_004_eq_26_needs_an_inverse() -> None:
    """Printed: (ΔA)^{-1}. Zero-order hold is an integral, and needs no inverse: ΔB + Δ²/2 AB, if A² = 0."""
    for result, right in zip(printed_ssm.held_004_eq_26(A, B, 0.1), ssm.zero_order_hold(A, B, 0.1), strict=True):
        assert near(result, right)
    chain, b = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([0.0, 1.0])
    with pytest.raises(ZeroDivisionError):
        printed_ssm.held_004_eq_26(chain, b, 0.1)
    assert near(ssm.zero_order_hold(chain, b, 0.1)[1], np.array([0.005, 0.1]))
    mixer = (
        mixer_config({"kind": "ssm", "state_dim": 2, "method": "zoh", "step": 0.1}).build(dim=1, context=None).double()
    )
    for name, numbers in (("a", chain), ("b.weight", b[:, None]), ("c.weight", b[None, ::-1]), ("d.weight", [[0.0]])):
        mixer.state_dict()[name].copy_(torch.tensor(np.array(numbers)))
    ones = mixer(torch.ones(1, T, 1, dtype=torch.float64))[0, :, 0].detach().numpy()
    assert np.allclose(ones, [(0.1 * t) ** 2 / 2 for t in range(1, T + 1)], atol=1e-8)  # t²/2, twice summed up


def selective(width: int) -> dict[str, Array]:
    shapes = {"a": (width, 3), "w_b": (width, 3), "w_c": (width, 3), "w_r": (width, 2), "w_delta": (2, width)}
    rng = np.random.default_rng(2)
    w = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    return w | {"b_delta": rng.normal(size=width), "D": rng.normal(size=width)}


def test_004_eq_26_is_not_what_mamba_runs() -> None:
    """Said: Gu and Dao use Eq. 26. Their paper prints it; what they run has B̄ = ΔB, the same to first order in Δ."""
    w = selective(D)
    assert not np.isclose(s6.s6(V, w), s6.s6_of_eq_4(V, w), rtol=0, atol=1e-3).all(1).any()
    errors = []
    for step in (1e-3, 1e-4):
        held, run = ssm.zero_order_hold(A, B, step)[1], ssm.mamba_rule(A, B, step)[1]
        errors.append(float(np.abs(held / run - 1).max()))
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.05)


def test_004_eq_31_is_the_kernel() -> None:
    """Eq. 28 to 31 are right: the recurrence that starts from nothing is that convolution."""
    stepped = ssm.bilinear(A, B, 0.1)
    assert near(printed_ssm.convolved_004_eq_30_31(V[:, 0], *stepped, C), ssm.ssm(V[:, 0], *stepped, C, 0.0))


def test_004_eq_32_has_no_b() -> None:
    """Printed: A alone. HiPPO has B_n = (2n+1)^{1/2}: with any other, ones as well, a constant is not remembered."""
    assert near(printed_ssm.hippo_004_eq_32(D), A)
    still, other = (printed_ssm.hippo_004_eq_32(D) @ ONE[0] + b for b in (B, np.ones(D)))
    assert near(still, np.zeros(D))
    assert np.abs(other).max() > 1


def mixed(width: int) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    shapes = {"L": (3,), "B": (3, width), "C": (width, 3)}
    w = {name: rng.normal(size=shape) + 1j * rng.normal(size=shape) for name, shape in shapes.items()}
    stable = -np.abs(w["L"].real) + 1j * w["L"].imag
    return w | {"L": stable, "log_delta": rng.normal(size=3) * 0.1, "D": np.zeros(width)}


def test_004_s5_is_a_convolution() -> None:
    """The text: S5 makes convolution impossible. It is one, with a matrix C Ā^l B̄ per distance; only expensive."""
    w = mixed(D)
    step = np.exp(w["log_delta"])
    kept = np.exp(w["L"] * step)
    new = ((kept - 1) / w["L"])[:, None] * w["B"]
    result = printed_ssm.convolved_004_eq_30_31(V, np.diag(kept), new, w["C"])
    assert near(2 * result.real, s5.of_state(V, w))


def test_004_s6_is_s4_with_a_selection() -> None:
    """Said: S6 extends S5. S5 has one state for all channels, S6 one for each, as S4; Δ, B, C alone join them."""
    w, later = selective(D), V.copy()
    for name in ("w_b", "w_c", "w_r"):
        w[name][0] = 0.0
    later[0, 0] += 1
    changed = np.abs(s6.s6(later, w) - s6.s6(V, w)) > 1e-9
    assert changed[:, 0].all()
    assert not changed[:, 1:].any()
    assert (np.abs(s5.of_state(later, mixed(D)) - s5.of_state(V, mixed(D))) > 1e-9)[1:].all()


def test_004_s6_learns_no_matrix_for_a_step() -> None:
    """Said: L matrices B, C, Δ, learned independently. They are functions of the token: nothing is of a step."""
    w, twice = selective(D), np.concatenate([V, V])
    for result, again in zip(s6.selected(twice[1], w), s6.selected(twice[1 + T], w), strict=True):
        assert near(result, again)
    rows = [s6.selected(row, w) for row in V]
    tables = {name: np.array([row[i] for row in rows]) for i, name in enumerate(("steps", "inputs", "outputs"))}
    free = dict(w, **tables, D=np.zeros(D))
    assert near(printed_ssm.s6_004_with_a_matrix_for_each_step(V, free), s6.s6(V, free))
    assert near(printed_ssm.s6_004_with_a_matrix_for_each_step(2 * V, free), 2 * s6.s6(V, free))
    assert not near(s6.s6(2 * V, free), 2 * s6.s6(V, free))
    with pytest.raises(IndexError):
        printed_ssm.s6_004_with_a_matrix_for_each_step(twice, free)
    assert s6.s6(twice, free).shape == twice.shape
