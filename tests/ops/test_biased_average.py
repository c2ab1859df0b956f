"""The biased average: every backend against a loop over numbers, in value and gradient, odd lengths, huge keys."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.core.cost import Cost, Span
from seqloom.core.state import State
from seqloom.core.state_spec import start
from seqloom.ops import backends
from seqloom.ops.biased_average import OP, add_tokens, average, biases, memory
from seqloom.ops.biased_average.reference import price
from seqloom.ops.biased_average.total import Total, empty_total
from tests.at_once import first

D = 6
FORMS = {"table": ("#", "T", 6), "row by row": ("B", "T", 6), "taps": ("#", "#", 1), "taps a head": ("#", "#", 2)}
"""whether the biases depend on row and position, and whether keys are per channel or shared by three"""
every_form = pytest.mark.parametrize("form", FORMS)
FAST = [(backend, form) for form in FORMS for backend in ("blocks", "lags") if backend == "blocks" or "taps" in form]
every_fast = pytest.mark.parametrize(("backend", "form"), FAST)
SIZES = [(1, 1, 0), (1, 9, 4), (2, 3, 3), (7, 2, 5), (8, 8, 0), (9, 40, 3), (17, 4, 0), (23, 6, 9), (37, 1, 2)]
"""tokens, lags, past tokens"""


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def given(form: str, T: int, L: int, P: int) -> list[Tensor]:
    """k, v, bias, past k, past v, sums and peak of a total; the first row has one past token less and no total."""
    rows, positions, heads = FORMS[form]
    K = 2 if heads == 2 else D
    bias = numbers(2 if rows == "B" else 1, T if positions == "T" else 1, L, heads if heads == 2 else 1, seed=3)
    sums, peak = numbers(2, K, D // K + 1, seed=6).abs(), numbers(2, K, seed=7)
    past_k = numbers(2, P, K, seed=4)
    if P:
        sums[0], peak[0] = 0.0, 0.0
        past_k[0, 0] = -math.inf
    return [numbers(2, T, K), numbers(2, T, D, seed=1), bias, past_k, numbers(2, P, D, seed=5), sums, peak]


def run(k: Tensor, v: Tensor, bias: Tensor, past_k: Tensor, past_v: Tensor, sums: Tensor, peak: Tensor) -> Tensor:
    return average(k, v, bias, (past_k, past_v), Total(sums, peak))


def loop(inputs: list[Tensor]) -> np.ndarray:
    """Number by number, each under the maximum of its own terms."""
    k, v, bias, past_k, past_v, sums, peak = (x.detach().double().numpy() for x in inputs)
    keys, values = np.concatenate([past_k, k], 1), np.concatenate([past_v, v], 1)
    (B, T, K), P = k.shape, past_k.shape[1]
    y = np.zeros((B, T, D))
    for b in range(B):
        for t in range(T):
            for d in range(D):
                h = d * K // D
                terms, of = [], []
                for lag in range(P + t + 1):
                    row, position, head = min(b, len(bias) - 1), min(t, bias.shape[1] - 1), min(h, bias.shape[3] - 1)
                    added = bias[row, position, lag, head] if lag < bias.shape[2] else 0.0
                    terms.append(keys[b, P + t - lag, h] + added)
                    of.append(values[b, P + t - lag, d])
                largest = max([*terms, peak[b, h] if sums[b, h, -1] > 0 else -math.inf])
                weights = [math.exp(term - largest) for term in terms]
                num, den = sum(w * x for w, x in zip(weights, of, strict=True)), sum(weights)
                if sums[b, h, -1] > 0:
                    rest = math.exp(peak[b, h] - largest)
                    num, den = num + rest * sums[b, h, d % (D // K)], den + rest * sums[b, h, -1]
                y[b, t, d] = num / den
    return y


@pytest.mark.sample(5)
@every_form
@pytest.mark.parametrize("backend", OP.backends)
@pytest.mark.parametrize(("T", "L", "P"), SIZES)
def test_every_backend_of_biased_average_is_the_equation(backend: str, form: str, T: int, L: int, P: int) -> None:
    inputs = given(form, T, L, P)
    with backends.use(biased_average=backend):
        if backend == "lags" and inputs[2].shape[:2] != (1, 1):
            with pytest.raises(ValueError, match="cannot do this"):
                run(*inputs)
        else:
            np.testing.assert_allclose(run(*inputs).numpy(), loop(inputs), atol=1e-12)


@every_fast
@pytest.mark.parametrize(("T", "L", "P"), [(1, 3, 2), (9, 3, 5), (13, 20, 0)])
def test_every_backend_of_biased_average_has_the_gradients_of_the_reference(
    backend: str, form: str, T: int, L: int, P: int
) -> None:
    grads = []
    for name in (backend, "reference"):
        inputs = [x.clone().requires_grad_() for x in given(form, T, L, P)[:-1]]
        with backends.use(biased_average=name):
            (run(*inputs, given(form, T, L, P)[-1]) * numbers(2, T, D, seed=9)).sum().backward()
        grads.append([x.grad if x.grad is not None else torch.zeros_like(x) for x in inputs])
    for actual, expected in zip(*grads, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@every_fast
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 2e-5), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("scale", first(1, [1e4, 100.0, 1.0]))
def test_keys_of_any_size(backend: str, form: str, dtype: torch.dtype, bound: float, scale: float) -> None:
    """Up to ±1e4, in values and finite gradients; rising ones, falling ones and ones that jump late are among them."""
    T, L, P = 23, 5, 6
    inputs = [x.to(dtype) for x in given(form, T, L, P)]
    ramp = torch.linspace(-scale, scale, T)[:, None]
    for k in (inputs[0].clamp(-1, 1) * scale, ramp, -ramp, torch.where(torch.arange(T)[:, None] > 17, scale, -scale)):
        leaves = [k.expand_as(inputs[0]).to(dtype).clone().requires_grad_(), *inputs[1:]]
        with backends.use(biased_average=backend):
            y = run(*leaves)
        expected = loop(leaves)
        assert y.dtype == dtype
        assert float(np.abs(y.detach().double().numpy() - expected).max()) <= bound * np.abs(expected).max()
        y.float().square().sum().backward()
        assert bool(leaves[0].grad.isfinite().all())


@pytest.mark.slow
@every_fast
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_huge_late_key_moves_no_earlier_output(backend: str, form: str, dtype: torch.dtype) -> None:
    """Not in the last bit, not by underflow, not in a gradient."""
    k, v, *rest = (x.to(dtype) for x in given(form, 21, 5, 3))
    with backends.use(biased_average=backend):
        y = run(k, v, *rest)
        for position in range(1, 21):
            late, value = k.clone(), v.clone()
            late[:, position], value[:, position] = 1e30, -1e30
            assert torch.equal(run(late, value, *rest)[:, :position], y[:, :position]), position
            late[:, position] = -1e30
            assert torch.equal(run(late, v, *rest)[:, :position], y[:, :position]), position
        k.requires_grad_()
        v.requires_grad_()
        y = run(k, v, *rest)
        for position in range(20):
            for grad in torch.autograd.grad(y[:, position].sum(), (k, v), retain_graph=True):
                assert not bool(grad[:, position + 1 :].any()), position


@pytest.mark.parametrize("backend", OP.backends)
def test_a_total_replaces_its_tokens(backend: str) -> None:
    """Tokens before the window may be given one by one or as a total, in any order of adding them."""
    k, v, bias = numbers(2, 12, 2), numbers(2, 12, D, seed=1), numbers(1, 1, 3, 2, seed=2)
    with backends.use(biased_average=backend):
        total = empty_total(2, 2, D, k)
        empty = torch.full_like(k[:, :2], -math.inf)
        for begin, end in ((3, 4), (0, 3), (4, 4), (4, 6)):
            total = add_tokens(total, torch.cat([empty, k[:, begin:end]], 1), torch.cat([v[:, :2], v[:, begin:end]], 1))
        y = average(k[:, 8:], v[:, 8:], bias, (k[:, 6:8], v[:, 6:8]), total)
        torch.testing.assert_close(y, average(k, v, bias)[:, 8:], rtol=0, atol=1e-13)


def test_a_total_of_huge_keys_is_finite() -> None:
    k, v = torch.tensor([[[-1e4], [1e4], [-1e4]]]), torch.tensor([[[1.0], [2.0], [3.0]]])
    for n in (1, 2, 3):
        total = add_tokens(empty_total(1, 1, 1, k), k[:, :n], v[:, :n])
        assert total.peak.item() == (1e4 if n > 1 else -1e4)
        assert total.sums[0, 0].tolist() == ([2.0, 1.0] if n > 1 else [1.0, 1.0])


@pytest.mark.parametrize("positions", [[[0, 1, 2, 3]], [[2, 3], [0, 1]]])
def test_biases_by_lag(positions: list[list[int]]) -> None:
    table, factors, by_lag, lags = numbers(4, 4), numbers(2, 4, 3), numbers(4, 2), 2
    for backend in ("reference", "blocks"):
        with backends.use(biased_average=backend):
            actual = [biases.over_keys(w, torch.tensor(positions), lags) for w in (table, factors)]
            actual.append(biases.over_lags(by_lag, torch.tensor(positions), lags))
        for b, row in enumerate(positions):
            for i, t in enumerate(row):
                for lag in range(min(lags, t + 1)):
                    expected = (table[t, t - lag], factors[0, t] @ factors[1, t - lag], by_lag[t, lag])
                    for a, w in zip(actual, expected, strict=True):
                        assert abs(float(a[b, i, lag, 0] - w)) < 1e-14


def test_standard_taps() -> None:
    w, gain, shift = numbers(7, 3), torch.tensor([0.0, 1.0, -2.0]).double(), torch.tensor([1.0, 0.0, 3.0]).double()
    for backend, tokens in (("reference", 4), ("blocks", 1)):
        with backends.use(biased_average=backend):
            b = biases.standard(w, gain, shift, 4)
        assert b.shape == (1, tokens, 7, 3)
        torch.testing.assert_close(b[0, 0].mean(0), shift)
        torch.testing.assert_close(b[0, 0].std(0, correction=0), gain.abs(), rtol=1e-4, atol=0)


def test_arguments_of_biased_average_that_do_not_fit_raise_an_error() -> None:
    k, v = numbers(2, 5, 4), numbers(2, 5, D)
    with pytest.raises(ValueError, match="K dividing D"):
        average(k, v, numbers(1, 1, 3, 1))
    for shape in ((1, 5, 3), (1, 4, 3, 1), (3, 5, 3, 1), (1, 1, 3, 4), (1, 1, 0, 1)):
        with pytest.raises(ValueError, match="does not fit"):
            average(v, v, numbers(*shape))
    assert average(v[:, :0], v[:, :0], numbers(1, 1, 3, 1)).shape == (2, 0, D)
    assert average(v[:0], v[:0], numbers(1, 1, 3, 1)).shape == (0, 5, D)


@pytest.mark.parametrize("window", [None, 1, 3])
def test_the_prices_of_the_tokens_add_up(window: int | None) -> None:
    """A token that falls out of the window is added to the sum beyond it; the first that does is the sum itself."""
    for T in range(1, 7):
        tokens = [price(Span(t, "token"), window, 2, 4) for t in range(1, T + 1)]
        assert sum(tokens, Cost()).total == price(Span(T, "sequence"), window, 2, 4).total
    beyond = price(Span(5, "token"), 3, 2, 4)
    assert (beyond.mul, beyond.exp, beyond.div) == ((3 + 1) * 4, (3 + 1) * 2, 4)
    assert beyond.add == 3 * 2 + (2 + 2) * (4 + 2), "3 biases, 2 sums in the window, a decayed sum and one to join them"


@pytest.mark.parametrize("cut", [1, 4, 6])
def test_padding_neither_enters_the_ring_nor_leaves_the_window(cut: int) -> None:
    """Rows of several lengths read on as each does alone: what left the window is in the sum, and nothing else is."""
    L, bias = 3, numbers(1, 1, 3, 1, seed=3)
    k, v = numbers(3, 12, 2), numbers(3, 12, D, seed=1)
    lengths = torch.tensor([cut, cut - 1, 0])
    state = start(memory.entries(L, 2, D), 3, 0, k.dtype, k.device)
    for read in (0, cut):  # a ring that is not full, then one that may be
        piece = k[:, read : read + cut], v[:, read : read + cut]
        _, entries = memory.carry(*piece, bias, state, lengths)
        state = State({**entries, "length": state["length"] + lengths}, read + cut)
    y, _ = memory.carry(k[:, :2], v[:, :2], bias, state)
    for row, n in enumerate(lengths.tolist()):
        keys, values = (torch.cat([x[row, :n], x[row, cut : cut + n], x[row, :2]])[None] for x in (k, v))
        torch.testing.assert_close(y[row], average(keys, values, bias)[0, -2:], rtol=0, atol=1e-12)
