"""Lightweight and dynamic convolution against their equations, number by number."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.core.cost import Span
from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops.lag_sum.taps import price

D, H, K = 8, 2, 3


def built(kind: str, causal: bool = True, **settings: int) -> Mixer:
    torch.manual_seed(2)
    mixer = mixer_config({"kind": kind, "heads": H, "kernel": K, **settings}).build(D, None, causal=causal).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_()
    return mixer


def softmax(row: list[float]) -> list[float]:
    powers = [math.exp(each) for each in row]
    return [power / sum(powers) for power in powers]


def expected_output(kind: str, x: Tensor, w: dict[str, Tensor], dilation: int = 1, middle: int = 0) -> Tensor:
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
            inputs = {k: t - (k - middle) * dilation for k in range(K)}
            y[t, c] = sum(p[k] * u[s][c] for k, s in inputs.items() if 0 <= s < len(x))
    return y @ w["w_out.weight"].T


@pytest.mark.parametrize("kind", ["lightweight_conv", "dynamic_conv"])
@pytest.mark.parametrize("T", [1, 2, 9])
def test_lightweight_conv_is_its_equation(kind: str, T: int) -> None:
    mixer = built(kind)
    x = torch.randn(1, T, D, dtype=torch.float64)
    actual = expected_output(kind, x[0], mixer.state_dict())
    torch.testing.assert_close(mixer(x)[0], actual, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["lightweight_conv", "dynamic_conv"])
@pytest.mark.parametrize("dilation", [2, 5])
@pytest.mark.parametrize("T", [1, 4, 13])
def test_dilated_taps_are_the_equation_whole_and_token_by_token(kind: str, dilation: int, T: int) -> None:
    mixer = built(kind, dilation=dilation)
    x = torch.randn(1, T, D, dtype=torch.float64)
    expected = expected_output(kind, x[0], mixer.state_dict(), dilation)
    torch.testing.assert_close(mixer(x)[0], expected, rtol=1e-12, atol=1e-12)
    state = mixer.start(1)
    for t in range(T):
        y, state = mixer.step(x[:, t], state)
        torch.testing.assert_close(y[0], expected[t], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["lightweight_conv", "dynamic_conv"])
@pytest.mark.parametrize("dilation", [1, 2, 5])
@pytest.mark.parametrize("T", [1, 4, 13])
def test_bidirectional_taps_lie_around_a_token(kind: str, dilation: int, T: int) -> None:
    mixer = built(kind, causal=False, dilation=dilation)
    x = torch.randn(1, T, D, dtype=torch.float64)
    expected = expected_output(kind, x[0], mixer.state_dict(), dilation, middle=1)
    torch.testing.assert_close(mixer(x)[0], expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="a kernel of 2 has no middle"):
        built(kind, causal=False, kernel=2)


@pytest.mark.parametrize("kind", ["lightweight_conv", "dynamic_conv"])
def test_rows_of_different_lengths_read_on_under_dilated_taps(kind: str) -> None:
    mixer, x = built(kind, dilation=3), torch.randn(2, 11, D, dtype=torch.float64)
    keep = torch.rand(2, 11, generator=torch.Generator().manual_seed(0)) < 0.6
    y, state = mixer.extend(x[:, :5], mixer.start(2), keep[:, :5])
    z, _ = mixer.extend(x[:, 5:], state, keep[:, 5:])
    torch.testing.assert_close(torch.cat([y, z], 1), mixer(x, keep), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("T", [1, 5, 12])
def test_only_products_with_inputs_are_priced(T: int) -> None:
    terms = sum(4 * k <= t for t in range(T) for k in range(K))
    assert price(Span(T), D, K, dilation=4).mul == terms * D
    assert price(Span(T, "token"), D, K, dilation=4).mul == sum(4 * k < T for k in range(K)) * D


@pytest.mark.parametrize("kind", ["lightweight_conv", "dynamic_conv"])
def test_heads_divide_dim(kind: str) -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        mixer_config({"kind": kind, "heads": 3}).build(D, None)
