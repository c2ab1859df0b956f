"""Channel mixing: its equation in plain numpy, the contract of a mixer, its price, its initial values."""

import numpy as np
import pytest
import torch

from seqloom.counting.count import count
from seqloom.models.channel_mix import ChannelMix
from tests.contract.cases import DIM, drawn
from tests.contract.test_causal import check_causal, check_longest
from tests.contract.test_cost import check_cost
from tests.contract.test_keep import check_keep_forward, check_keep_reading, check_rows
from tests.contract.test_numbers import check_derivatives, check_small_numbers
from tests.contract.test_reading import check_gradients_through_pieces, check_pieces, check_step
from tests.contract.test_refusals import check_keep_is_bool, check_refusals
from tests.contract.test_state import (
    check_reuse_writes_only_into_what_was_given_up,
    check_state_form,
    check_state_is_kept,
)
from tests.contract.test_state_size import check_fork_and_trim, check_state_size
from tests.contract.test_store import check_around

PROMISES = (
    *(check_causal, check_longest, check_cost, check_derivatives, check_small_numbers, check_refusals),
    *(check_keep_is_bool, check_state_form, check_state_is_kept, check_reuse_writes_only_into_what_was_given_up),
    *(check_fork_and_trim, check_state_size, check_around, check_keep_forward, check_keep_reading, check_rows),
    *(check_pieces, check_step, check_gradients_through_pieces),
)


def make(context: int | None = 5, dtype: torch.dtype = torch.float64) -> ChannelMix:
    mixing = drawn(ChannelMix(DIM, 12))
    assert isinstance(mixing, ChannelMix)
    return mixing.to(dtype)


def equation(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
    before = np.concatenate([np.zeros((1, DIM)), x[:-1]])
    r, k = ((x * p[f"mu_{n}"] + before * (1 - p[f"mu_{n}"])) @ p[f"w_{n}.weight"].T for n in "rk")
    return 1 / (1 + np.exp(-r)) * (np.maximum(k, 0) ** 2 @ p["w_v.weight"].T)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_channel_mix_keeps_the_promises_of_a_mixer(promise) -> None:
    promise(make)


@pytest.mark.parametrize("T", [1, 2, 7])
def test_outputs_of_channel_mix_are_its_equation(T: int) -> None:
    mixing, x = make(), np.random.default_rng(T).normal(size=(2, T, DIM))
    p = {name: parameter.detach().numpy() for name, parameter in mixing.named_parameters()}
    result = mixing(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(result, np.stack([equation(row, p) for row in x]), rtol=0, atol=1e-12)


def test_any_cut_with_dropped_tokens_and_steps() -> None:
    mixing, x = make(), torch.randn(2, 7, DIM, dtype=torch.float64)
    keep = torch.tensor([[True, False, True, True, False, True, True], [False, False, True, True, True, False, True]])
    with torch.no_grad():
        whole = mixing(x, keep)
        for row in range(2):
            alone = mixing(x[row : row + 1, keep[row]])
            torch.testing.assert_close(whole[row, keep[row]], alone[0], rtol=0, atol=1e-12)
        for cut in range(8):
            first, state = mixing.extend(x[:, :cut], mixing.start(2), keep[:, :cut])
            second, state = mixing.extend(x[:, cut:], state, keep[:, cut:])
            torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-12)
            assert torch.equal(state["length"], keep.sum(1))
            token, _ = mixing.step(x[:, 0], state)
            torch.testing.assert_close(token, mixing.extend(x[:, :1], state)[0][:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("T", [1, 2, 5])
def test_the_price_of_channel_mix_is_the_count(T: int) -> None:
    mixing, x = make(), torch.randn(1, T, DIM, dtype=torch.float64)
    with torch.no_grad():
        counted, price = count(lambda: mixing(x)), mixing.cost(T)
        state = mixing.start(1)
        stepped, token = count(lambda: mixing.step(x[:, 0], state)), mixing.cost(T, per="token")
    for name in ("mul", "add", "div", "exp", "other"):
        assert getattr(counted, name) == getattr(price, name), name
        assert getattr(stepped, name) == getattr(token, name), name


def test_initial_values() -> None:
    for (layer, depth), left in {(0, 1): 1, (0, 3): 1, (2, 3): 1 / 3}.items():
        mixing = ChannelMix(4, 16, layer, depth)
        for mu in (mixing.mu_r, mixing.mu_k):
            np.testing.assert_allclose(mu.detach().numpy(), (np.arange(4) / 4) ** left, atol=1e-6)
    before = mixing.mu_k.detach().clone()
    with torch.no_grad():
        mixing.mu_k.add_(1.0)
    mixing.reset(0.01)
    assert torch.equal(mixing.mu_k, before)
    with pytest.raises(ValueError, match="there is no layer 3 in 3"):
        ChannelMix(4, 16, 3, 3)
