"""The feed-forward network, second sublayer of a layer: its equation, the contract of a mixer, no state, its price."""

from functools import partial

import pytest
import torch

from seqloom.analysis.measure import peak_bytes
from seqloom.core.config import read
from seqloom.counting.count import count
from seqloom.models.decoder import DecoderConfig
from seqloom.models.ffn import FFN
from seqloom.training.settings import resolve
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
def test_ffn_keeps_the_promises_of_a_mixer(promise) -> None:
    promise(make)


def test_outputs_without_memory() -> None:
    ffn, x = make(), draw(2, 5, DIM)
    expected = torch.clamp(x @ ffn.w_1.weight.T + ffn.w_1.bias, min=0) @ ffn.w_2.weight.T + ffn.w_2.bias
    torch.testing.assert_close(ffn(x), expected, rtol=0, atol=1e-12)
    y, state = ffn.extend(x, ffn.start(2, capacity=9))
    assert y.equal(ffn(x))
    assert state.keys() == {"length"}
    torch.testing.assert_close(ffn.step(x[:, 0], state)[0], y[:, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("T", [1, 4])
def test_the_price_of_ffn_is_the_count(T: int) -> None:
    ffn, x = make(), draw(1, T, DIM)
    with torch.no_grad():
        counted, stepped = count(lambda: ffn(x)), count(lambda: ffn.step(x[:, 0], ffn.start(1)))
    for name in ("mul", "add", "div", "exp", "other"):
        assert getattr(counted, name) == getattr(ffn.cost(T), name), name
        assert getattr(stepped, name) == getattr(ffn.cost(T, per="token"), name), name
    assert ffn.cost(T).state == 0


@pytest.mark.parametrize("gated", [False, True])
def test_chunks_give_the_same_numbers_and_gradients(gated: bool) -> None:
    whole, cut = (drawn(FFN(DIM, 12, gated=gated, chunk=chunk)) for chunk in (None, 3))
    cut.load_state_dict(whole.state_dict())
    x = draw(2, 8, DIM).requires_grad_()
    results = []
    for ffn in (whole, cut):
        y = ffn(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), (x, *ffn.parameters()))])
    for actual, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    state = cut.start(2)
    torch.testing.assert_close(cut.extend(x, state)[0], results[0][0], rtol=0, atol=1e-12)


def test_chunks_hold_less_for_the_backward() -> None:
    """Of 64 tokens and 1,024 hidden channels, 4 tokens at a time: the hidden layers are not saved."""
    held = {chunk: saved(FFN(DIM, 1024, chunk=chunk)) for chunk in (None, 4)}
    assert held[None] > 64 * 1024 * 4
    assert held[4] < held[None] / 50
    with torch.no_grad():
        x = torch.randn(1, 64, DIM)
        peak = {chunk: peak_bytes(partial(FFN(DIM, 1024, chunk=chunk), x)) for chunk in (None, 4)}
    assert peak[4] < peak[None] / 8


@pytest.mark.slow
@pytest.mark.parametrize("sublayers", ["serial", "reversible"])
def test_chunks_around_a_mixer(sublayers: str) -> None:
    sizes = {"vocab": 20, "dim": DIM, "depth": 2, "context": 8, "ffn": 12, "dropout": 0.0, "sublayers": sublayers}
    settings = {**sizes, "mixer": {"kind": "reformer", "heads": 2, "bucket": 2}}
    results, ids = [], torch.arange(16).view(2, 8)
    for chunk in (None, 3):
        torch.manual_seed(0)
        model = read(DecoderConfig, {**settings, "ffn_chunk": chunk}).build().double().train()
        y = model(ids)
        results.append([y, *torch.autograd.grad(y.square().sum(), list(model.parameters()))])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def test_a_chunk_of_no_feed_forward_network_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"chunk is of the feed-forward network, and ffn\.kind=none has none"):
        resolve("tiny", ["model.channel=none", "model.ffn_chunk=4"])


def saved(ffn: FFN) -> int:
    """Bytes that autograd saves of a pass over 64 tokens, parameters aside."""
    own, sizes = {parameter.data_ptr() for parameter in ffn.parameters()}, {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() not in own:
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        ffn(torch.randn(1, 64, DIM, requires_grad=True))
    return sum(sizes.values())
