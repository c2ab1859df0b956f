"""RWKV-7's channel mixing: its equation in plain numpy, the contract of a mixer, its price, its initial values."""

import numpy as np
import pytest
import torch

from seqloom.counting.count import count
from seqloom.models.channel_mix7 import ChannelMix7
from tests.contract.cases import DIM, drawn
from tests.models.test_channel_mix import PROMISES


def make(context: int | None = 5, dtype: torch.dtype = torch.float64) -> ChannelMix7:
    mixing = drawn(ChannelMix7(DIM, 12))
    assert isinstance(mixing, ChannelMix7)
    return mixing.to(dtype)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_channel_mix7_keeps_the_promises_of_a_mixer(promise) -> None:
    promise(make)


@pytest.mark.parametrize("T", [1, 2, 7])
def test_outputs_of_channel_mix7_are_its_equation(T: int) -> None:
    """As the authors' code has it: k = x + (before - x) x_k; relu(key k)^2; value."""
    mixing, x = make(), np.random.default_rng(T).normal(size=(2, T, DIM))
    mu, key, value = (p.detach().numpy() for p in (mixing.mu, mixing.w_k.weight, mixing.w_v.weight))
    before = np.concatenate([np.zeros((2, 1, DIM)), x[:, :-1]], 1)
    expected = np.maximum((x + (before - x) * mu) @ key.T, 0) ** 2 @ value.T
    np.testing.assert_allclose(mixing(torch.from_numpy(x)).detach().numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("T", [1, 2, 5])
def test_the_price_of_channel_mix7_is_the_count(T: int) -> None:
    mixing, x = make(), torch.randn(1, T, DIM, dtype=torch.float64)
    with torch.no_grad():
        counted, price = count(lambda: mixing(x)), mixing.cost(T)
        state = mixing.start(1)
        stepped, token = count(lambda: mixing.step(x[:, 0], state)), mixing.cost(T, per="token")
    for name in ("mul", "add", "div", "exp", "other"):
        assert getattr(counted, name) == getattr(price, name), name
        assert getattr(stepped, name) == getattr(token, name), name


def test_initial_values() -> None:
    for (layer, depth), exponent in {(0, 1): 1, (0, 3): 1, (2, 4): 1 / 16}.items():
        mixing = ChannelMix7(4, 16, layer, depth)
        np.testing.assert_allclose(mixing.mu.detach().numpy(), 1 - (np.arange(4) / 4) ** exponent, atol=1e-6)
        torch.testing.assert_close(mixing.w_k.weight.T @ mixing.w_k.weight, torch.eye(4), rtol=0, atol=1e-5)
    assert [group.get("weight_decay") for group in mixing.param_groups()] == [None, 0.0]
    with pytest.raises(ValueError, match="there is no layer 3 in 3"):
        ChannelMix7(4, 16, 3, 3)
