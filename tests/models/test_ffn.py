"""The feed-forward network, second sublayer of a layer: its equation, the contract of a mixer, no state, its price."""

import pytest
import torch

from seqloom.analysis.count import count
from seqloom.models.ffn import FFN
from tests.contract.cases import DIM, draw, drawn
from tests.contract.test_refusals import check_refusals
from tests.models.test_channel_mix import PROMISES

HELD = [promise for promise in PROMISES if promise is not check_refusals]
"""that one asks for a state which carries gradients, and here there is none"""


def make(context: int | None = 5, dtype: torch.dtype = torch.float64) -> FFN:
    ffn = drawn(FFN(DIM, 12))
    assert isinstance(ffn, FFN)
    return ffn.to(dtype)


@pytest.mark.parametrize("promise", HELD, ids=lambda promise: promise.__name__)
def test_it_keeps_the_promises_of_a_mixer(promise) -> None:
    promise(make)


def test_outputs_without_memory() -> None:
    ffn, x = make(), draw(2, 5, DIM)
    wanted = torch.clamp(x @ ffn.w_1.weight.T + ffn.w_1.bias, min=0) @ ffn.w_2.weight.T + ffn.w_2.bias
    torch.testing.assert_close(ffn(x), wanted, rtol=0, atol=1e-12)
    y, state = ffn.extend(x, ffn.start(2, capacity=9))
    assert y.equal(ffn(x))
    assert state.keys() == {"length"}
    torch.testing.assert_close(ffn.step(x[:, 0], state)[0], y[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("T", [1, 4])
def test_its_price_is_the_count(T: int) -> None:
    ffn, x = make(), draw(1, T, DIM)
    with torch.no_grad():
        counted, stepped = count(lambda: ffn(x)), count(lambda: ffn.step(x[:, 0], ffn.start(1)))
    for name in ("mul", "add", "div", "exp", "other"):
        assert getattr(counted, name) == getattr(ffn.cost(T), name), name
        assert getattr(stepped, name) == getattr(ffn.cost(T, per="token"), name), name
    assert ffn.cost(T).state == 0
