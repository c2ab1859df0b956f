"""Lightweight and dynamic convolution against their equations, number by number."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config

D, H, K = 8, 2, 3


def built(kind: str) -> Mixer:
    torch.manual_seed(2)
    mixer = mixer_config({"kind": kind, "heads": H, "kernel": K}).build(D, None).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_()
    return mixer


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(each) for each in row]
    return [each / sum(powers) for each in powers]


def wanted(kind: str, x: Tensor, w: dict[str, Tensor]) -> Tensor:
    both = x @ w["w_in.weight"].T
    u = [[float(both[t, c]) / (1 + math.exp(-float(both[t, D + c]))) for c in range(D)] for t in range(len(x))]
    y = torch.zeros(len(x), D, dtype=torch.float64)
    for t in range(len(x)):
        for c in range(D):
            head = c // (D // H)
            if kind == "lightweight_conv":
                logits = [float(w["w"][k, head]) for k in range(K)]
            else:
                made = w["w_taps.weight"] @ torch.tensor(u[t], dtype=torch.float64)
                logits = [float(made[head * K + k]) for k in range(K)]
            p = softmax(logits)
            y[t, c] = sum(p[k] * u[t - k][c] for k in range(K) if t >= k)
    return y @ w["w_out.weight"].T


@pytest.mark.parametrize("kind", ["lightweight_conv", "dynamic_conv"])
@pytest.mark.parametrize("T", [1, 2, 9])
def test_it_is_the_equation(kind: str, T: int) -> None:
    mixer = built(kind)
    x = torch.randn(1, T, D, dtype=torch.float64)
    found = wanted(kind, x[0], mixer.state_dict())
    torch.testing.assert_close(mixer(x)[0], found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["lightweight_conv", "dynamic_conv"])
def test_heads_divide_dim(kind: str) -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        mixer_config({"kind": kind, "heads": 3}).build(D, None)
