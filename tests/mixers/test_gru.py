"""The GRU in its two forms, and an output layer without a bias.

    r_j = σ([W_r x]_j + [U_r h_{t-1}]_j),   z_j = σ([W_z x]_j + [U_z h_{t-1}]_j)                 Eq. 5, 6
    h_j = z_j h_j^{t-1} + (1 - z_j) h̃_j                                                           Eq. 7
    h̃_j = tanh([W x]_j + [U (r ∘ h_{t-1})]_j)                                                     Eq. 8
    cuDNN:  h̃_j = tanh([W x]_j + b_j + r_j ([U h_{t-1}]_j + b'_j))

The equations of the paper leave the biases out; here each has one, b_r, b_z and b.

Source: Cho et al., Learning Phrase Representations, arXiv:1406.1078, section 2.3; NVIDIA's cuDNN manual, CUDNN_GRU.
"""

import math

import numpy as np
import pytest
import torch

from seqloom.ops import backends
from tests.mixers.cells import (
    BACKENDS,
    D,
    Settings,
    check_module_of_torch,
    check_orthogonal,
    check_recurrence,
    mixer_of,
)
from tests.mixers.recurrences.arithmetic import Array, Weights, out, product, sigmoid


def gru(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has w_r, w_z, w_n (D, N), u_r, u_z, u_n (N, N), b_r, b_z, b_n (N,) and w_out.

    With inner (N,), b', it is cuDNN's.
    """
    N = len(w["b_n"])
    h, y = np.zeros(N), np.zeros((len(x), N))
    for t in range(len(x)):
        of_x = {gate: product(x[t], w[f"w_{gate}"]) + w[f"b_{gate}"] for gate in "rzn"}
        of_h = {gate: product(h, w[f"u_{gate}"]) for gate in "rz"}
        r, z = (np.array([sigmoid(s) for s in of_x[gate] + of_h[gate]]) for gate in "rz")
        past = r * (product(h, w["u_n"]) + w["inner"]) if "inner" in w else product(r * h, w["u_n"])
        for j in range(N):
            y[t, j] = z[j] * h[j] + (1 - z[j]) * math.tanh(of_x["n"][j] + past[j])
        h = y[t]
    return out(y, w)


SETTINGS: dict[str, Settings] = {
    f"{reset}{units}": {"kind": "gru", "reset": reset, **sizes}
    for reset in ("before", "after")
    for units, sizes in (("", {}), (", 4 units", {"state_dim": 4}))
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", SETTINGS)
def test_gru_is_the_papers_recurrence(case: str, backend: str) -> None:
    if case.startswith("before") and backend == "kernel":
        with backends.use(recurrence="kernel"), pytest.raises(ValueError, match="cannot do this"):
            mixer_of(SETTINGS[case])(torch.zeros(1, 2, D).double())
        return
    check_recurrence(SETTINGS[case], gru, backend)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", ["after", "after, 4 units"])
def test_gru_is_the_module_of_torch(case: str, dtype: torch.dtype) -> None:
    check_module_of_torch(SETTINGS[case], dtype)


@pytest.mark.parametrize("case", SETTINGS)
def test_the_state_of_gru_goes_through_an_orthogonal_matrix_at_first(case: str) -> None:
    check_orthogonal(SETTINGS[case])


def test_the_two_resets_differ() -> None:
    before, after = mixer_of(SETTINGS["before"]), mixer_of(SETTINGS["after"])
    with torch.no_grad():
        after.b_n.zero_()
    after.load_state_dict(before.state_dict(), strict=False)
    x = torch.randn(1, 4, D, dtype=torch.float64)
    apart = (before(x) - after(x)).detach().abs().amax((0, 2))
    assert float(apart[0]) < 1e-15, "with nothing to reset they are one"
    assert float(apart[1:].min()) > 1e-3
