"""A token of RWKV's time mixing and channel mixing in C against the equations, for any sizes and any threads."""

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor
from torch.nn.functional import linear

from seqloom.models.channel_mix import ChannelMix
from seqloom.ops import backends
from seqloom.ops.wkv_average import mixing, wkv
from tests.ops.needing import needs_native
from tests.ops.test_wkv_average import numbers

pytestmark = needs_native
BOUNDS = {torch.float64: {"rtol": 1e-11, "atol": 1e-12}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}
SIZES = [(1, 1, 1), (1, 5, 2), (3, 16, 70), (4, 130, 33)]
"""rows, channels, channels inside: whole blocks of four rows of a matrix, and what is left of them"""


@pytest.fixture(autouse=True)
def _one_thread_after() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def of_time(B: int, D: int, dtype: torch.dtype) -> list[Tensor]:
    """x, last, μ_r, μ_k, μ_v, W_r, W_k, W_v, W_out, ln w, u, and sums after some tokens."""
    sizes = [(B, D)] * 2 + [(D,)] * 3 + [(D, D)] * 4 + [(D,)] * 2
    drawn = [numbers(*size, seed=seed) for seed, size in enumerate(sizes)]
    sums = torch.stack([numbers(B, D, seed=20), numbers(B, D, seed=21).exp(), numbers(B, D, seed=22)], 1)
    return [tensor.to(dtype) for tensor in (*drawn, sums)]


def of_channels(B: int, D: int, W: int, dtype: torch.dtype) -> list[Tensor]:
    """x, last, μ_r, μ_k, W_r, W_k, W_v."""
    sizes = [(B, D), (B, D), (D,), (D,), (D, D), (W, D), (D, W)]
    return [numbers(*size, seed=seed).to(dtype) for seed, size in enumerate(sizes)]


def timed(x: Tensor, last: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The output, the token and the sums after it, by C."""
    last, sums, *shares_and_weights = (tensor.clone() for tensor in (last, rest[-1], *rest[:-1]))
    *mu, w_r, w_k, w_v, w_out, rate, bonus = shares_and_weights
    assert mixing.able(x, (last, sums), *shares_and_weights)
    y = mixing.time_mixing(x, last, (mu[0], mu[1], mu[2]), (w_r, w_k, w_v), rate, bonus, sums, w_out)
    return y, last, sums


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("B", "D", "W"), SIZES)
def test_time_mixing_is_its_equation(B: int, D: int, W: int, dtype: torch.dtype) -> None:
    given = of_time(B, D, dtype)
    x, last, *mu, w_r, w_k, w_v, w_out, rate, bonus, sums = (tensor.double() for tensor in given)
    r, k, v = (linear(last + part * (x - last), w) for part, w in zip(mu, (w_r, w_k, w_v), strict=True))
    with backends.use(wkv_average="sequential"):
        a, after = wkv(k[:, None], v[:, None], rate, bonus, sums)
    y, newest, result = timed(*given)
    torch.testing.assert_close(y.double(), linear(torch.sigmoid(r) * a[:, 0], w_out), **BOUNDS[dtype])
    assert torch.equal(newest, given[0])
    for n in (0, 1):  # at any scale
        scaled = [tensor[:, n] * (tensor[:, 2] - after[:, 2]).exp() for tensor in (result.double(), after)]
        torch.testing.assert_close(*scaled, **BOUNDS[dtype])


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("B", "D", "W"), SIZES)
def test_channel_mixing_is_its_equation(B: int, D: int, W: int, dtype: torch.dtype) -> None:
    given = of_channels(B, D, W, dtype)
    x, last, mu_r, mu_k, w_r, w_k, w_v = (tensor.double() for tensor in given)
    r, k = (linear(last + part * (x - last), w) for part, w in ((mu_r, w_r), (mu_k, w_k)))
    newest = given[1].clone()
    y = mixing.channel_mixing(given[0], newest, (given[2], given[3]), *given[4:])
    hidden = torch.relu(k).square()
    expected, terms = (torch.sigmoid(r) * linear(hidden, weight) for weight in (w_v, w_v.abs()))
    rounded = (16 + D + W) * torch.finfo(dtype).eps  # of sums of D and W terms, which may cancel
    assert bool(((y.double() - expected).abs() <= rounded * terms).all())
    assert torch.equal(newest, given[0])


def test_the_number_of_threads_changes_no_bit() -> None:
    outputs = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        outputs.append(timed(*of_time(1, 258, torch.float32)))
        x, last, mu_r, mu_k, *weights = of_channels(2, 258, 515, torch.float32)
        outputs[-1] += (mixing.channel_mixing(x, last, (mu_r, mu_k), *weights),)
    for other in outputs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(outputs[0], other, strict=True))


def test_nan_and_infinity_pass_through() -> None:
    x, last, mu_r, mu_k, *weights = of_channels(1, 4, 8, torch.float64)
    x[0, 1] = torch.nan
    assert mixing.channel_mixing(x, last, (mu_r, mu_k), *weights).isnan().all()


def test_what_is_not_able() -> None:
    x, last, *rest = of_channels(2, 8, 16, torch.float64)
    assert mixing.able(x, (last,), *rest)
    many, more, *_ = of_channels(mixing.PRODUCTS // 128 + 1, 8, 16, torch.float64)
    learned = [*rest[:-1], rest[-1].clone().requires_grad_()]
    assert not mixing.able(many, (more,), *rest)
    assert not mixing.able(x, (last.T.contiguous().T,), *rest)
    assert not mixing.able(x, (last.float(),), *rest)
    assert not mixing.able(x, (last,), *learned)
    for op, name in (("wkv_average", "doubling"), ("projection", "torch")):
        with backends.use(**{op: name}):
            assert not mixing.able(x, (last,), *rest)


def test_hooks_and_replaced_layers_are_not_passed_over() -> None:
    """A step runs what a layer was replaced by, and its hooks."""
    mixer, calls = ChannelMix(8, 16), []
    handle = mixer.w_k.register_forward_hook(lambda *of: calls.append(of))
    x = numbers(1, 8).float()
    with torch.no_grad():
        y, _ = mixer.step(x, mixer.start(1))
        handle.remove()
        without, _ = mixer.step(x, mixer.start(1))
        mixer.w_v = torch.nn.Linear(16, 8)  # type: ignore[assignment]  # as a user may
        assert len(calls) == 1
        torch.testing.assert_close(y, without)


def test_wrong_arguments_are_errors() -> None:
    x, last, mu_r, mu_k, w_r, w_k, w_v = of_channels(2, 8, 16, torch.float64)
    with pytest.raises(
        (ValueError, TypeCheckError), match=r"w_v must be|Type-check"
    ):  # the shape hook may be the first
        mixing.channel_mixing(x, last, (mu_r, mu_k), w_r, w_k, w_v[:, :-1].contiguous())
    with pytest.raises(
        (ValueError, TypeCheckError), match=r"last must be|Type-check"
    ):  # the shape hook may be the first
        mixing.channel_mixing(x, last[:1], (mu_r, mu_k), w_r, w_k, w_v)
    with pytest.raises(ValueError, match="without gaps"):
        mixing.channel_mixing(x, last.T.contiguous().T, (mu_r, mu_k), w_r, w_k, w_v)
    x, last, *mu, w_r, w_k, w_v, w_out, rate, bonus, sums = of_time(2, 8, torch.float64)
    with pytest.raises(
        (ValueError, TypeCheckError), match=r"sums must be|Type-check"
    ):  # the shape hook may be the first
        mixing.time_mixing(x, last, (mu[0], mu[1], mu[2]), (w_r, w_k, w_v), rate, bonus, sums[:, :2], w_out)
