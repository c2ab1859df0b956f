"""Elman's simple recurrent network, with tanh units, and an output layer without a bias.

    h_0 = 0,   h_t = tanh(x_t W_x + h_{t-1} W_h + b),   y_t = h_t W_out

Source: Elman, Finding Structure in Time, Cognitive Science 14, 1990; his units are logistic.
"""

import math

import numpy as np
import pytest
import torch

from tests.mixers.cells import BACKENDS, Settings, check_module_of_torch, check_orthogonal, check_recurrence
from tests.mixers.recurrences.arithmetic import Array, Weights, out, product


def elman(x: Array, w: Weights) -> Array:
    """x (T, D) -> (T, D); w has w_x (D, N), w_h (N, N), b (N,) and w_out."""
    N = len(w["b"])
    h, y = np.zeros(N), np.zeros((len(x), N))
    for t in range(len(x)):
        inputs, past = product(x[t], w["w_x"]), product(h, w["w_h"])
        for j in range(N):
            y[t, j] = math.tanh(inputs[j] + past[j] + w["b"][j])
        h = y[t]
    return out(y, w)


SETTINGS: dict[str, Settings] = {"rnn": {"kind": "rnn"}, "4 units": {"kind": "rnn", "state_dim": 4}}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", SETTINGS)
def test_rnn_is_the_papers_recurrence(case: str, backend: str) -> None:
    check_recurrence(SETTINGS[case], elman, backend)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", SETTINGS)
def test_rnn_is_the_module_of_torch(case: str, dtype: torch.dtype) -> None:
    check_module_of_torch(SETTINGS[case], dtype)


@pytest.mark.parametrize("case", SETTINGS)
def test_the_state_of_rnn_goes_through_an_orthogonal_matrix_at_first(case: str) -> None:
    check_orthogonal(SETTINGS[case])
