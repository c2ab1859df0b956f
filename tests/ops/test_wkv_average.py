"""The running average: every backend against plain sums of exponentials, in value and gradient; sizes and lengths."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.wkv_average import OP, empty, native, sequential, wkv
from tests.at_once import first
from tests.ops.needing import lacking

D = 3
LACKING = lacking("wkv_average")
FAST = [name for name in OP.backends if name not in ("reference", "triton")]
BACKENDS = ("reference", *FAST)
HERE = [name for name in BACKENDS if name not in LACKING]


def where_there_is_one(name: str) -> pytest.param:
    return pytest.param(name, marks=pytest.mark.skipif(name in LACKING, reason=LACKING.get(name, "")))


every_backend = pytest.mark.parametrize("backend", [where_there_is_one(name) for name in BACKENDS])
every_fast = pytest.mark.parametrize("backend", [where_there_is_one(name) for name in FAST])
WEIGHTS = {"both": (True, True), "rate": (True, False), "bonus": (False, True), "neither": (False, False)}
every_kind = pytest.mark.parametrize("kind", WEIGHTS)


@pytest.fixture(autouse=True)
def _short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential, "SPAN", 4)  # so that short sequences cross from span to span


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights(kind: str) -> tuple[Tensor | None, Tensor | None]:
    rate, bonus = WEIGHTS[kind]
    return numbers(D, seed=5) - 1 if rate else None, numbers(D, seed=6) if bonus else None


def sums(k: np.ndarray, v: np.ndarray, log_rate: np.ndarray, bonus: np.ndarray, past: np.ndarray) -> tuple:
    """The equation for one channel, number by number; and what its two sums are after the last token."""
    w, u, T = math.exp(log_rate), bonus, len(k)
    y = np.zeros(T)
    for t in range(T + 1):
        faded = math.exp(-t * w)
        over, under = past[0] * math.exp(past[2]) * faded, past[1] * math.exp(past[2]) * faded
        for j in range(t):
            weight = math.exp(k[j] - (t - 1 - j) * w)
            over, under = over + weight * v[j], under + weight
        if t < T:
            own = math.exp(u + k[t])
            y[t] = (over + own * v[t]) / (under + own)
    return y, over, under


def written(k: Tensor, v: Tensor, log_rate: Tensor | None, bonus: Tensor | None, state: Tensor) -> tuple:
    """`sums` for every row and channel: y (B, T, D), and numerators and denominators (B, D) at scale 0."""
    rates = np.full(D, -np.inf) if log_rate is None else log_rate.numpy()
    bonuses = np.zeros(D) if bonus is None else bonus.numpy()
    y, after = np.zeros(k.shape), np.zeros((2, len(k), D))
    for b, d in np.ndindex(len(k), D):
        y[b, :, d], after[0, b, d], after[1, b, d] = sums(
            k[b, :, d].numpy(), v[b, :, d].numpy(), rates[d], bonuses[d], state[b, :, d].numpy()
        )
    return y, after


def past(rows: int) -> Tensor:
    """A state that any backend may have left."""
    return torch.stack([numbers(rows, D, seed=7), numbers(rows, D, seed=8).exp(), numbers(rows, D, seed=9)], 1)


def is_sums(state: Tensor, expected: np.ndarray) -> None:
    for actual, sums_of in zip((state[:, 0], state[:, 1]), expected, strict=True):
        np.testing.assert_allclose((actual * state[:, 2].exp()).numpy(), sums_of, rtol=1e-11, atol=1e-12)


@pytest.mark.sample(5)
@every_kind
@every_backend
@pytest.mark.parametrize("T", [1, 2, 4, 7, 13])
def test_every_backend_of_wkv_average_is_the_equation(backend: str, kind: str, T: int) -> None:
    k, v = numbers(2, T, D), numbers(2, T, D, seed=1)
    for state in (None, past(2)):
        with backends.use(wkv_average=backend):
            y, after = wkv(k, v, *weights(kind), state)
        expected, summed = written(k, v, *weights(kind), torch.zeros(2, 3, D).double() if state is None else state)
        np.testing.assert_allclose(y.numpy(), expected, rtol=0, atol=1e-12)
        is_sums(after, summed)


def gradients(backend: str, kind: str, T: int, lengths: Tensor | None) -> list[Tensor]:
    """Of k, v, weights and state, from a loss over what is read in two pieces and over the sums after them."""
    leaves = [numbers(2, T, D), numbers(2, T, D, seed=1), *weights(kind), past(2)]
    k, v, log_rate, bonus, state = (None if leaf is None else leaf.requires_grad_() for leaf in leaves)
    with backends.use(wkv_average=backend):
        first, middle = wkv(k[:, :2], v[:, :2], log_rate, bonus, state)
        second, after = wkv(k[:, 2:], v[:, 2:], log_rate, bonus, middle, lengths=lengths)
    y = torch.cat([first, second], 1)
    if lengths is not None:
        y = y * (torch.arange(T) < lengths[:, None] + 2)[:, :, None]
    read = after[:, :2] * after[:, 2:].exp()
    ((y * numbers(2, T, D, seed=2)).sum() + (read * numbers(2, 2, D, seed=3)).sum()).backward()
    return [leaf.grad for leaf in leaves if leaf is not None]


@pytest.mark.sample(5)
@every_kind
@every_fast
@pytest.mark.parametrize("T", [3, 7, 12])
@pytest.mark.parametrize("lengths", [None, (1, 0)])
def test_every_backend_of_wkv_average_has_the_gradients_of_the_reference(
    backend: str, kind: str, T: int, lengths: tuple[int, ...] | None
) -> None:
    until = None if lengths is None else torch.tensor(lengths)
    for actual, expected in zip(
        gradients(backend, kind, T, until), gradients("reference", kind, T, until), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.sample(5)
@every_kind
@every_backend
def test_any_cut_of_wkv_average_and_any_other_backend_go_on(backend: str, kind: str) -> None:
    """A state that one backend leaves is read by each other, cut by cut; rows of unequal length too."""
    T = 11
    k, v = numbers(3, T, D), numbers(3, T, D, seed=1)
    with backends.use(wkv_average="reference"):
        expected, end = wkv(k, v, *weights(kind))
    for other in HERE:
        for cut in (1, 4, 10):
            with backends.use(wkv_average=backend):
                first, state = wkv(k[:, :cut], v[:, :cut], *weights(kind))
            before = state.clone()
            with backends.use(wkv_average=other):
                second, after = wkv(k[:, cut:], v[:, cut:], *weights(kind), state)
            torch.testing.assert_close(torch.cat([first, second], 1), expected, rtol=0, atol=1e-12)
            torch.testing.assert_close(after[:, :2] * after[:, 2:].exp(), end[:, :2] * end[:, 2:].exp())
            assert torch.equal(state, before)


@every_fast
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_huge_later_key_changes_nothing_before_it(backend: str, dtype: torch.dtype) -> None:
    """Not by a bit: a maximum over the whole sequence or over a chunk would let the sums before it underflow."""
    k, v = numbers(2, 41, D).to(dtype), numbers(2, 41, D, seed=1).to(dtype)
    with backends.use(wkv_average=backend):
        y, _ = wkv(k, v, *weights("both"))
        for position, size in ((1, 1e4), (6, 1e4), (17, -1e4), (40, 1e9)):
            late, other = k.clone(), v.clone()
            late[:, position:], other[:, position:] = size, 1e6
            assert torch.equal(wkv(late, other, *weights("both"))[0][:, :position], y[:, :position])


def stable(k: Tensor, v: Tensor, log_rate: Tensor, bonus: Tensor) -> Tensor:
    """The equation over all pairs of positions, in float64, each row of weights by its own maximum."""
    k, v, position = k.double(), v.double(), torch.arange(k.shape[1])
    lag = (position[:, None] - position - 1)[:, :, None]  # (T, T, 1)
    faded = torch.where(lag >= 0, -lag * log_rate.double().exp(), torch.where(lag == -1, bonus.double(), -math.inf))
    return ((faded + k[:, None]).softmax(2) * v[:, None]).sum(2)


@every_fast
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-9), (torch.float32, 1e-2), (torch.bfloat16, 2e-2)])
def test_keys_of_any_size(backend: str, dtype: torch.dtype, bound: float) -> None:
    """Keys to ±1e4, where a float32 is known to 1e-3, and every gradient is finite."""
    for size in (0.0, 1.0, 1e2, 1e4):
        k, v = (size * numbers(2, 65, D).tanh()).to(dtype), numbers(2, 65, D, seed=1).to(dtype)
        log_rate, bonus = torch.tensor([-5.0, 0.0, 3.0]).to(dtype), numbers(D, seed=6).to(dtype)
        leaves = [each.requires_grad_() for each in (k, v, log_rate, bonus)]
        with backends.use(wkv_average=backend):
            y, after = wkv(*leaves)
        assert y.dtype == dtype
        assert after.dtype == torch.promote_types(dtype, torch.float32)
        with torch.no_grad():
            expected = stable(*leaves)
        assert float((y.detach().double() - expected).norm() / expected.norm()) < bound, size
        y.sum().backward()
        assert all(bool(leaf.grad.isfinite().all()) for leaf in leaves)


@pytest.mark.slow
@every_fast
@pytest.mark.parametrize("sign", first(1, [1, -1]))
def test_keys_that_rise_and_fall_without_end(backend: str, sign: int) -> None:
    """From -1e4 to 1e4 and back, ten a token, 8,192 tokens in float32: y is the newest value or nearly."""
    T = 8_192
    zigzag = (torch.arange(T) * 10.0 + 1e4).remainder(4e4)
    k = sign * (torch.where(zigzag > 2e4, 4e4 - zigzag, zigzag) - 1e4)[None, :, None].expand(1, T, 2)
    v = torch.arange(T, dtype=torch.float32)[None, :, None].expand(1, T, 2).contiguous().requires_grad_()
    log_rate = torch.tensor([3.0, -80.0], requires_grad=True)  # forgets at 20 a token, and never
    with backends.use(wkv_average=backend):
        y, after = wkv(k, v, log_rate, torch.zeros(2))
    assert bool(y.isfinite().all())
    assert bool(after.isfinite().all())
    np.testing.assert_allclose(
        y[0, :, 0].detach(), v[0, :, 0].detach(), rtol=0, atol=1.01
    )  # or the one before, where keys fall
    y.sum().backward()
    assert bool(v.grad.isfinite().all())
    assert bool(log_rate.grad.isfinite().all())
    np.testing.assert_allclose(v.grad[0, :, 0].sum(), T, rtol=1e-4)  # an average: its weights sum to 1


@every_fast
@pytest.mark.parametrize("T", [4096])
def test_a_long_softmax_stays_exact(backend: str, T: int) -> None:
    """Without a rate the sum grows on and on: float32 keeps 1e-4 of what a long plain average is."""
    k, v = numbers(2, T, 2).float(), numbers(2, T, 2, seed=1).float()
    weight = k.double().exp()
    expected = (weight * v.double()).cumsum(1) / weight.cumsum(1)
    with backends.use(wkv_average=backend):
        y, _ = wkv(k, v)
    assert float((y - expected).abs().max()) < 1e-4


@pytest.mark.parametrize("compiled", [True, False])
def test_the_backend_of_wkv_average_by_size(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.KERNEL, "available", lambda: compiled)
    if compiled and "native" in LACKING:
        pytest.skip(LACKING["native"])
    for rows, dim, expected in ((1, 8, "doubling"), (4, 64, "sequential")):
        expected = "native" if compiled else expected
        with backends.record_backends() as ran:
            wkv(numbers(rows, 5, dim), numbers(rows, 5, dim))
        assert ran == {"wkv_average": [expected]}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wkv(numbers(2, 3, D), numbers(2, 4, D)), "v must be"),
        (lambda: wkv(numbers(3, D), numbers(3, D)), "k must be"),
        (lambda: wkv(numbers(2, 3, D), numbers(2, 3, D), numbers(D + 1)), "log_rate must be"),
        (lambda: wkv(numbers(2, 3, D), numbers(2, 3, D), None, numbers(1)), "bonus must be"),
        (lambda: wkv(numbers(2, 3, D), numbers(2, 3, D), state=empty(1, D, torch.float64)), "state must be"),
    ],
)
def test_shapes_of_wkv_average_that_do_not_fit_are_errors(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeCheckError), match=f"{message}|Type-check"):  # the shape hook may be the first
        call()
