"""The lag sum: every backend against a loop over numbers, in value and gradient, for each kind of taps."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.ops import backends, gpu
from seqloom.ops.lag_sum import EXACT, OP, lags
from tests.ops.needing import lacking

D = 4
TAPS = {"mixing": (D, D), "grouped": (2, 2, 2), "each": (D,), "shared": ()}
"""the shape of one tap of each kind"""
every_kind = pytest.mark.parametrize("kind", TAPS)
LACKING = lacking("lag_sum") | ({} if gpu.supports(torch.device("cpu")) else {"triton": "it is for a GPU"})
"""what cannot run on the tensors here, which are on a CPU"""
UNABLE = {"toeplitz": ("mixing", "grouped", "each"), "native": ("mixing", "grouped")}
"""kinds of taps that a backend is not for"""
HERE = [name for name in OP.backends if name not in LACKING]
every_backend = pytest.mark.parametrize("backend", HERE)
every_backend_and_kind = pytest.mark.parametrize(
    ("backend", "kind"), [(name, kind) for name in HERE for kind in TAPS if kind not in UNABLE.get(name, ())]
)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loop(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """y_i = Σ_j x_j W_{i-j}, number by number, for one row."""
    y = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(max(0, i - len(w) + 1), i + 1):
            tap = w[i - j]
            if tap.ndim == 0 or tap.ndim == 1:
                y[i] += x[j] * tap
            elif tap.ndim == 2:
                y[i] += x[j] @ tap
            else:
                width = tap.shape[1]
                for g in range(len(tap)):
                    part = slice(g * width, (g + 1) * width)
                    y[i, part] += x[j, part] @ tap[g]
    return y


@every_backend_and_kind
@pytest.mark.parametrize("narrow", [False, True])
def test_autocast_rounds_no_sum(backend: str, kind: str, narrow: bool) -> None:
    x, w = numbers(2, 33, D).bfloat16(), numbers(16, *TAPS[kind], seed=1).float()
    with backends.use(lag_sum=backend):
        exact = lags(x.double(), w.double())
        with torch.autocast("cpu", torch.bfloat16):
            y = lags(x if narrow else x.float(), w)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=1e-4)


@pytest.mark.sample(5)
@every_backend_and_kind
@pytest.mark.parametrize(("T", "L"), [(1, 1), (1, 5), (7, 3), (7, 7), (9, 1), (3, 8), (33, 16), (16, 16)])
def test_every_backend_of_lag_sum_is_the_equation(backend: str, kind: str, T: int, L: int) -> None:
    x, w = numbers(2, T, D), numbers(L, *TAPS[kind], seed=1)
    with backends.use(lag_sum=backend):
        y = lags(x, w)
        with torch.no_grad():
            torch.testing.assert_close(lags(x, w), y, rtol=0, atol=1e-12)
    for row in range(2):
        np.testing.assert_allclose(y[row].numpy(), loop(x[row].numpy(), w.numpy()), atol=1e-12)


@pytest.mark.parametrize(
    ("backend", "kind"), [(name, kind) for name, kinds in UNABLE.items() if name in HERE for kind in kinds]
)
def test_taps_that_a_backend_is_not_for_are_errors(backend: str, kind: str) -> None:
    x, w = numbers(2, 7, D), numbers(3, *TAPS[kind], seed=1)
    with backends.use(lag_sum=backend):
        for past in (None, x[:, :2]):
            with pytest.raises(ValueError, match=f"backend '{backend}' of lag_sum cannot do this; able are "):
                lags(x, w, past)


@pytest.mark.sample(5)
@every_backend_and_kind
@pytest.mark.parametrize(("T", "L", "P"), [(1, 4, 3), (7, 3, 2), (5, 9, 4), (5, 3, 11), (6, 4, 0), (0, 4, 3)])
def test_every_backend_goes_on_from_the_past(backend: str, kind: str, T: int, L: int, P: int) -> None:
    x, w = numbers(2, P + T, D), numbers(L, *TAPS[kind], seed=1)
    with backends.use(lag_sum=backend):
        y = lags(x[:, P:], w, past=x[:, :P])
    assert y.shape == (2, T, D)
    for row in range(2):
        np.testing.assert_allclose(y[row].numpy(), loop(x[row].numpy(), w.numpy())[P:], atol=1e-12)


@pytest.mark.sample(3)
@every_backend_and_kind
@pytest.mark.parametrize(("T", "L"), [(1, 3), (7, 3), (5, 9), (17, 16)])
def test_every_backend_of_lag_sum_has_the_gradients_of_the_reference(backend: str, kind: str, T: int, L: int) -> None:
    actual, expected = [], []
    for name, into in ((backend, actual), ("reference", expected)):
        x, past = numbers(3, T, D).requires_grad_(), numbers(3, 2, D, seed=4).requires_grad_()
        w = numbers(L, *TAPS[kind], seed=1).requires_grad_()
        with backends.use(lag_sum=name):
            (lags(x, w, past) * numbers(3, T, D, seed=2)).sum().backward()
        into += [x.grad, past.grad, w.grad]
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@every_backend
@pytest.mark.parametrize("wants", ["x", "w"])
def test_one_gradient_alone(backend: str, wants: str) -> None:
    """Only what is asked for is computed, and it is right."""
    x, w = numbers(2, 9, D), numbers(5, seed=1)
    both = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    with backends.use(lag_sum=backend):
        lags(*both).square().sum().backward()
        one = [x.clone().requires_grad_(wants == "x"), w.clone().requires_grad_(wants == "w")]
        lags(*one).square().sum().backward()
    for a, b in zip(one, both, strict=True):
        assert a.grad is None or torch.allclose(a.grad, b.grad, rtol=0, atol=1e-10)
    assert sum(a.grad is not None for a in one) == 1


@pytest.mark.sample(3)
@every_backend_and_kind
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_how_far_a_later_input_reaches_back(backend: str, kind: str, dtype: torch.dtype) -> None:
    """Not at all, or, through the FFT, at most 8 eps · max|x| · Σ|w| · log2(2T)."""
    T, L = 37, 16
    x, w = numbers(2, T, D).to(dtype), numbers(L, *TAPS[kind], seed=1).to(dtype)
    taps = w.abs().sum(tuple(range(w.ndim - 1))) if w.ndim > 1 else w.abs().sum()  # into one channel
    with backends.use(lag_sum=backend), torch.no_grad():
        y = lags(x, w)
        for position in (1, 7, 20, T - 1):
            late = x.clone()
            late[:, position:] += 1e6
            gap = float((lags(late, w) - y)[:, :position].abs().max())
            largest = float(late.abs().max())
            bound = 8 * torch.finfo(dtype).eps * largest * float(taps.max()) * math.log2(2 * T)
            assert gap <= (0.0 if backend in EXACT else bound), (position, gap, bound)


@every_backend_and_kind
def test_number_types_and_strides(backend: str, kind: str) -> None:
    x, w = numbers(2, 13, D), numbers(6, *TAPS[kind], seed=1)
    with backends.use(lag_sum=backend):
        expected = lags(x, w)
        for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
            y = lags(x.to(dtype), w.to(dtype))
            assert y.dtype == dtype
            assert float((y.double() - expected).norm() / expected.norm()) < bound
        strided = x.mT.contiguous().mT
        assert not strided.is_contiguous()
        torch.testing.assert_close(lags(strided, w), expected, rtol=0, atol=1e-12)
        assert lags(x[:, :0], w).shape == (2, 0, D)


@every_backend_and_kind
def test_no_rows(backend: str, kind: str) -> None:
    with backends.use(lag_sum=backend):
        assert lags(numbers(0, 13, D), numbers(6, *TAPS[kind], seed=1)).shape == (0, 13, D)


def test_integers_stay_exact_in_the_exact_backends() -> None:
    x = torch.randint(-9, 9, (2, 30, D), generator=torch.Generator().manual_seed(1)).float()
    w = torch.randint(-9, 9, (12, D), generator=torch.Generator().manual_seed(2)).float()
    for backend in {"direct", "reference", "native"} - LACKING.keys():
        with backends.use(lag_sum=backend):
            assert torch.equal(lags(x, w), lags(x, w).round())


@pytest.mark.parametrize("shape", [(3, D + 1), (3, D, D + 1), (3, 2, 3, 3), (3, 1, 2, 2, 2)])
def test_taps_that_do_not_fit_are_errors(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"lag_sum: [wx] must be"):
        lags(numbers(2, 5, D), numbers(*shape))


@pytest.mark.parametrize("shape", [(3, D + 1, D), (3, 2, 3, 2)])
def test_taps_that_are_not_square_are_errors(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"lag_sum: [wx] must be"):
        lags(numbers(2, 5, D), numbers(*shape))


@pytest.mark.slow
@every_kind
def test_the_chosen_backend_can_do_the_call_and_is_recorded(kind: str) -> None:
    """Whatever the table in force chooses can do the call, gives the sum, and is remembered."""
    for T, L, rows in ((5, 5, 1), (300, 40, 1), (40, 300, 3), (600, 500, 4), (2049, 2049, 1)):
        x, w = numbers(rows, T, D).requires_grad_(), numbers(L, *TAPS[kind], seed=1)
        with backends.use(lag_sum="direct" if L < 2049 else "fft"):
            expected = lags(x, w)
        with backends.record_backends() as ran:
            torch.testing.assert_close(lags(x, w), expected, rtol=0, atol=1e-10)
            with torch.no_grad():
                torch.testing.assert_close(lags(x, w), expected, rtol=0, atol=1e-10)
        assert set(ran["lag_sum"]) <= set(OP.backends) - {"reference"}


@every_kind
def test_divide_and_conquer_is_the_sum_and_exactly_causal(kind: str) -> None:
    """Two blocks and a piece, with several levels of halves in each, whatever runs the leaves."""
    T, L = 2500, 1030
    x, w = numbers(1, T, D), numbers(L, *TAPS[kind], seed=1)
    with torch.no_grad():
        with backends.use(lag_sum="fft"):
            expected = lags(x, w)
        with backends.use(lag_sum="divide_and_conquer"):
            y = lags(x, w)
            torch.testing.assert_close(y, expected, rtol=0, atol=1e-9)
            for position in (1, 255, 600, 1029, 2100):
                late = x.clone()
                late[:, position:] *= 1e9
                assert torch.equal(lags(late, w)[:, :position], y[:, :position])


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        pytest.param(name, kind, marks=pytest.mark.slow if name == "reference" else [])  # a loop, for seconds
        for name in HERE
        for kind in TAPS
        if kind not in UNABLE.get(name, ())
    ],
)
@pytest.mark.parametrize("signs", ["random", "alike"])
def test_how_far_float32_is_from_the_sum(backend: str, kind: str, signs: str) -> None:
    """By the bounds that `lags` states, with signs that cancel and signs that add up."""
    T, L = 300, 300
    x, w = numbers(2, T, D), numbers(L, *TAPS[kind], seed=1)
    if signs == "alike":
        x, w = x.abs(), w.abs()
    x, w = x.float(), w.float()
    with torch.no_grad(), backends.use(lag_sum=backend):
        y = lags(x, w).double()
    with torch.no_grad(), backends.use(lag_sum="direct"):
        exact, terms = lags(x.double(), w.double()), lags(x.double().abs(), w.double().abs())
    eps = torch.finfo(torch.float32).eps
    into = w.double().abs().sum(tuple(range(w.ndim - 1))).max() if w.ndim > 1 else w.double().abs().sum()
    smooth = 8 * eps * float(x.abs().max()) * float(into) * math.log2(2 * T)
    summed = eps * T * D * terms
    allowed = {"fft": smooth, "spectral": smooth, "divide_and_conquer": smooth + summed}.get(backend, summed)
    assert bool(((y - exact).abs() <= allowed).all())
    assert bool((y != exact).any())  # there is something to bound
