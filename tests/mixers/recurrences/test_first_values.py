"""Initial values of state-space mixers, against the matrices of their papers."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from seqloom.mixers import mixer_config
from tests.mixers.recurrences.activations import complexes
from tests.mixers.recurrences.arithmetic import Array
from tests.mixers.recurrences.hippo import lagt, legs, legt, low_rank
from tests.mixers.recurrences.s4 import dense, with_conjugates

D, N = 4, 16


def first(settings: dict[str, object]) -> dict[str, Array]:
    mixer = mixer_config(settings).build(dim=D, context=None)
    return {name: tensor.double().numpy() for name, tensor in mixer.state_dict().items()}


def normal_eigenvalues(size: int) -> Array:
    """Of LegS and P P*, the upper of each pair, by imaginary part."""
    P = low_rank("legs", size)
    result = np.linalg.eigvals(legs(size)[0] + P @ P.T)
    return np.array(sorted(result[result.imag > 0], key=lambda number: number.imag))


FREQUENCIES = {
    "lin": [math.pi * n for n in range(N // 2)],
    "inv": [N / math.pi * (N / (2 * n + 1) - 1) for n in range(N // 2)],
    "legs": list(normal_eigenvalues(N).imag),
}


@pytest.mark.parametrize("init", FREQUENCIES)
def test_s4d(init: str) -> None:
    """arXiv:2206.11893, Eq. 8 and 9, and S4D-LegS."""
    result = first({"kind": "s4d", "state_dim": N, "init": init})
    for c in range(D):
        np.testing.assert_allclose(-np.exp(result["log_rate"][c]), -0.5, atol=1e-6)
        np.testing.assert_allclose(np.sort(result["frequency"][c]), np.sort(FREQUENCIES[init]), rtol=1e-5, atol=1e-6)
    assert 1e-3 <= np.exp(result["log_step"]).min() <= np.exp(result["log_step"]).max() <= 1e-1


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_s5(blocks: int) -> None:
    """arXiv:2208.04933: J blocks of the normal part of LegS."""
    actual = first({"kind": "s5", "state_dim": N, "blocks": blocks})
    eigenvalues = complexes(actual["eigenvalues"])
    expected = np.tile(normal_eigenvalues(N // blocks), blocks)
    np.testing.assert_allclose(np.sort_complex(eigenvalues).real, -0.5, atol=1e-5)
    np.testing.assert_allclose(np.sort(np.abs(eigenvalues.imag)), np.sort(expected.imag), rtol=1e-5)


@pytest.mark.parametrize("measure", [legs, legt, lagt])
def test_ssm_and_lssl(measure: Callable[[int], tuple[Array, Array]]) -> None:
    """arXiv:2008.07669."""
    A, B = measure(N)
    for kind in ("ssm", "lssl"):
        result = first({"kind": kind, "state_dim": N, "measure": measure.__name__})
        np.testing.assert_allclose(result["a"], A, rtol=1e-6)
    np.testing.assert_allclose(result["b"], B, rtol=1e-6)


def test_s4() -> None:
    """arXiv:2111.00396: LegS in another basis, in which Pᵀ A^k B and Bᵀ A^k B stay what they are."""
    result = first({"kind": "s4", "state_dim": 8})
    Lambda, P, B = (with_conjugates(complexes(result[name])) for name in ("eigenvalues", "p", "b"))
    (legs_A, legs_B), legs_P = legs(8), low_rank("legs", 8)[:, 0]
    for k in range(5):
        for left, legs_left in ((P, legs_P), (B, legs_B)):
            moment = left.conj() @ np.linalg.matrix_power(dense(Lambda, P), k) @ B
            np.testing.assert_allclose(moment, legs_left @ np.linalg.matrix_power(legs_A, k) @ legs_B, rtol=1e-5)


@pytest.mark.parametrize("kind", ["s6", "mamba"])
def test_s6_and_mamba(kind: str) -> None:
    """arXiv:2312.00752, S4D-Real and section 3.6; D = 1 and W_Δ as the authors' code."""
    result = first({"kind": kind, "state_dim": N, "dt_rank": 4})
    for row in np.exp(result["a_log"]):
        np.testing.assert_allclose(row, range(1, N + 1), rtol=1e-6)
    steps = np.log1p(np.exp(result["dt_proj.bias"]))
    assert 1e-3 * 0.999 <= steps.min() <= steps.max() <= 0.1 * 1.001
    assert (result["d"] == 1).all()
    assert np.abs(result["dt_proj.weight"]).max() <= 0.5
