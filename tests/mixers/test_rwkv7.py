"""RWKV-7's later layers, which mix the first layer's values in, and what its parameters begin with."""

import numpy as np
import pytest
import torch

from seqloom.mixers import mixer_config
from seqloom.mixers.handing import HandingMixer
from tests.mixers.recurrences.cases import papers
from tests.mixers.recurrences.rwkv7 import rwkv7

D = 8


def built(layer: int) -> HandingMixer:
    mixer = mixer_config({"kind": "rwkv7", "heads": 2}).build(D, None, layer=layer, depth=3).double()
    assert isinstance(mixer, HandingMixer)
    torch.manual_seed(layer)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(0.5 * torch.randn_like(parameter))
    return mixer


@torch.no_grad()
def test_the_second_layer_mixes_the_values_of_the_first() -> None:
    first, second = built(0), built(1)
    x, y = (torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 9, D))) for seed in (0, 1))
    _, handed = first.forward_handed(x, None, {})
    actual, given = second.forward_handed(y, None, handed)
    assert given == handed
    earlier = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
    values = (x + first.mu[3] * (earlier - x)) @ first.w_v.weight.T
    torch.testing.assert_close(handed["values"], values)
    expected = rwkv7(y[0].numpy(), papers(second, "rwkv7"), 2, values[0].numpy())
    np.testing.assert_allclose(actual[0].numpy(), expected, rtol=0, atol=1e-10)
    state, tokens = second.start(1), []
    for t in range(9):
        token, state, _ = second.step_handed(y[:, t], state, False, {"values": values[:, t]})
        tokens.append(token)
    torch.testing.assert_close(torch.stack(tokens, 1), actual, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("layer", "depth"), [(0, 1), (0, 12), (5, 12), (11, 12)])
def test_it_is_initialized_as_the_authors_program(layer: int, depth: int) -> None:
    """RWKV-v7/train_temp/src/model.py of github.com/BlinkDL/RWKV-LM, channel by channel."""
    C, N = 128, 64
    mixer = mixer_config({"kind": "rwkv7", "heads": C // N}).build(C, None, layer=layer, depth=depth)
    actual = {name: tensor.double() for name, tensor in mixer.state_dict().items()}
    through, left = layer / max(depth - 1, 1), 1 - layer / depth
    for c in (0, 1, 63, 64, 100, 127):
        u = (c % N - (N - 1) / 2) / ((N - 1) / 2)
        zigzag, linear = u * abs(u), c / (C - 1) - 0.5
        expected = {
            "thin_out.decay.bias": -6 + 6 * (c / (C - 1)) ** (1 + through**0.3) + 0.5 + 2.5 * zigzag,
            "thin_out.rate.bias": -0.19 + 0.3 * zigzag + 0.4 * linear,
            "erased": 0.71 - 0.1 * linear,
            "replaced": 1.02,
            "gain": ((1 + layer) / depth) ** 0.7,
            "shift": 0.0,
        }
        if layer:
            expected["thin_out.value.bias"] = 0.73 - 0.4 * linear
        for name, value in expected.items():
            assert float(actual[name][c]) == pytest.approx(value, abs=1e-5), name
        exponents = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)
        for row, exponent in zip(actual["mu"], exponents, strict=True):
            assert float(row[c]) == pytest.approx(1 - (c / C) ** (exponent * left), abs=1e-5)
    for name in ("decay", "rate", "gate"):
        assert not actual[f"thin_in.{name}.weight"].any()
        out = actual[f"thin_out.{name}.weight"]
        torch.testing.assert_close(out.T @ out, 0.01 * torch.eye(out.shape[1]).double(), rtol=0, atol=1e-6)
    assert torch.equal(actual["bonus"], torch.full((C // N, N), -0.04).double())
    for name, scale in (("w_r", 1.0), ("w_k", 0.1), ("w_v", 1.0)):
        weight = actual[f"{name}.weight"]
        torch.testing.assert_close(weight.T @ weight, scale**2 * torch.eye(C).double(), rtol=0, atol=1e-5)
