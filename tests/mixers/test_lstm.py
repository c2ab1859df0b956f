"""The LSTM with a forget gate, and an output layer without a bias.

    i_t = σ(x_t W_xi + h_{t-1} W_hi + b_i),   so f_t and o_t           input, forget and output gate
    g_t = tanh(x_t W_xg + h_{t-1} W_hg + b_g)                          what may come in
    c_t = f_t c_{t-1} + i_t g_t,   h_t = o_t tanh(c_t),   y_t = h_t W_out,   h_0 = c_0 = 0

Source: Hochreiter and Schmidhuber, Long Short-Term Memory, Neural Computation 9, 1997, section 4, where f = 1; Gers,
Schmidhuber and Cummins, Learning to Forget, Neural Computation 12, 2000, section 3. Both squash g and c by logistic
functions scaled to (-2, 2) and (-1, 1): 4σ(z) - 2 and 2σ(z) - 1 = tanh(z/2).
"""

import math

import numpy as np
import pytest
import torch

from seqloom.mixers import mixer_config
from tests.mixers.cells import BACKENDS, D, Settings, check_module_of_torch, check_orthogonal, check_recurrence
from tests.mixers.recurrences.arithmetic import Array, Weights, out, product, sigmoid


def lstm(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has w_xi, w_hi, b_i, so for f, g and o, and w_out."""
    N = len(w["b_i"])
    h, c, y = np.zeros(N), np.zeros(N), np.zeros((len(x), N))
    for t in range(len(x)):
        sums = {gate: product(x[t], w[f"w_x{gate}"]) + product(h, w[f"w_h{gate}"]) + w[f"b_{gate}"] for gate in "ifgo"}
        for j in range(N):
            enters = sigmoid(sums["i"][j]) * math.tanh(sums["g"][j])
            c[j] = sigmoid(sums["f"][j]) * c[j] + enters
            y[t, j] = sigmoid(sums["o"][j]) * math.tanh(c[j])
        h = y[t]
    return out(y, w)


SETTINGS: dict[str, Settings] = {"lstm": {"kind": "lstm"}, "9 units": {"kind": "lstm", "state_dim": 9}}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", SETTINGS)
def test_lstm_is_the_papers_recurrence(case: str, backend: str) -> None:
    check_recurrence(SETTINGS[case], lstm, backend)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", SETTINGS)
def test_lstm_is_the_module_of_torch(case: str, dtype: torch.dtype) -> None:
    check_module_of_torch(SETTINGS[case], dtype)


@pytest.mark.parametrize("case", SETTINGS)
def test_the_state_of_lstm_goes_through_an_orthogonal_matrix_at_first(case: str) -> None:
    check_orthogonal(SETTINGS[case])


@pytest.mark.parametrize(("bias", "shown"), [(1.0, 0.731), (-3.0, 0.047)])
def test_the_forget_gate_has_its_initial_bias(bias: float, shown: float) -> None:
    mixer = mixer_config({"kind": "lstm", "forget_bias": bias}).build(D, None)
    for _ in range(2):
        assert mixer.w_in.bias.tolist() == [0.0] * D + [bias] * D + [0.0] * 2 * D
        forget = next(view for view in mixer.plots(torch.zeros(1, 1, D)) if view.name == "forget gate")
        torch.testing.assert_close(forget.values, torch.full((1, D), shown), rtol=0, atol=1e-3)
        mixer.reset(0.02)
