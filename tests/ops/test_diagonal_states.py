"""Diagonal systems: every backend against plain powers, in value and gradient; states, lengths, long sequences."""

import cmath
from collections.abc import Callable

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

from seqloom.analysis.measure import peak_bytes
from seqloom.ops import backends
from seqloom.ops.lag_sum import spectral
from seqloom.ops.state_space.diagonal_states import (
    OP,
    System,
    at_once,
    blocks,
    convolved,
    empty,
    filter_sequence,
    kernel,
    respond,
)

D, N = 3, 2
BACKENDS = tuple(OP.backends)
every_backend = pytest.mark.parametrize("backend", BACKENDS)
every_fast = pytest.mark.parametrize("backend", BACKENDS[1:])
either = pytest.mark.parametrize("shared", [False, True], ids=["rates each", "rates shared"])


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 4)  # so that short sequences cross from block to block
    monkeypatch.setattr(convolved, "BLOCK", 5)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pairs(*shape: int, seed: int = 0) -> Tensor:
    return torch.complex(numbers(*shape, seed=seed), numbers(*shape, seed=seed + 100))


def dynamics(shared: bool) -> tuple[Tensor, Tensor]:
    """Δλ that fade, with angles of many turns, and w."""
    shape = (N,) if shared else (D, N)
    return torch.complex(-numbers(*shape, seed=1).abs() / 4, 9 * numbers(*shape, seed=2)), pairs(D, N, seed=3)


def given(rates: Tensor, weights: Tensor) -> System:
    return lambda: (rates, weights)


def weight(rates: Tensor, weights: Tensor, c: int, lag: int) -> float:
    """K_l of a channel, by powers."""
    row = rates if rates.ndim == 1 else rates[c]
    return sum(2 * (w * cmath.exp(rate) ** lag).real for w, rate in zip(weights[c].tolist(), row.tolist(), strict=True))


def written(u: Tensor, rates: Tensor, weights: Tensor, state: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The equation number by number: outputs, and the state after."""
    y, after = np.zeros(u.shape), np.zeros(state.shape, complex)
    for b, c in np.ndindex(len(u), D):
        row = rates if rates.ndim == 1 else rates[c]
        h = state[b, c].tolist()
        for t in range(u.shape[1]):
            h = [cmath.exp(rate) * each + float(u[b, t, c]) for rate, each in zip(row.tolist(), h, strict=True)]
            y[b, t, c] = sum(2 * (w * each).real for w, each in zip(weights[c].tolist(), h, strict=True))
        after[b, c] = h
    return y, after


@either
@every_backend
@pytest.mark.parametrize("T", [1, 2, 4, 5, 11])
def test_every_backend_of_diagonal_states_is_the_equation(backend: str, shared: bool, T: int) -> None:
    u, (rates, weights) = numbers(2, T, D), dynamics(shared)
    for state in (None, pairs(2, D, N, seed=4)):
        with backends.use(diagonal_states=backend):
            y, after = respond(u, given(rates, weights), state)
            alone = filter_sequence(u, given(rates, weights))
        expected, left = written(u, rates, weights, torch.zeros(2, D, N) + 0j if state is None else state)
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(after, left, rtol=0, atol=1e-12)
        if state is None:
            np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-12)


@either
@pytest.mark.parametrize("T", [1, 2, 3, 10, 37])
def test_the_kernel_of_diagonal_states_is_made_of_powers(shared: bool, T: int) -> None:
    rates, weights = dynamics(shared)
    expected = [[weight(rates, weights, c, lag) for c in range(D)] for lag in range(T)]
    np.testing.assert_allclose(kernel(rates, weights, T), expected, rtol=0, atol=1e-12)


def gradients(backend: str, shared: bool, T: int, lengths: Tensor | None) -> list[Tensor]:
    """Of inputs, rates, weights and state, from what is read in two pieces and the state after them."""
    leaves = [numbers(2, T, D), *dynamics(shared), pairs(2, D, N, seed=4)]
    u, rates, weights, state = (leaf.requires_grad_() for leaf in leaves)
    with backends.use(diagonal_states=backend):
        first, middle = respond(u[:, :2], given(rates, weights), state)
        second, after = respond(u[:, 2:], given(rates, weights), middle, lengths=lengths)
    y = torch.cat([first, second], 1)
    if lengths is not None:
        y = y * (torch.arange(T) < lengths[:, None] + 2)[:, :, None]
    read = torch.view_as_real(after)
    ((y * numbers(2, T, D, seed=5)).sum() + (read * numbers(2, D, N, 2, seed=6)).sum()).backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.sample(5)
@either
@every_fast
@pytest.mark.parametrize("T", [3, 7, 14])
@pytest.mark.parametrize("lengths", [None, (1, 0)])
def test_every_backend_of_diagonal_states_has_the_gradients_of_the_reference(
    backend: str, shared: bool, T: int, lengths: tuple[int, ...] | None
) -> None:
    until = None if lengths is None else torch.tensor(lengths)
    for actual, expected in zip(
        gradients(backend, shared, T, until), gradients("reference", shared, T, until), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-11)


@either
@every_fast
def test_gradients_of_the_outputs_alone(backend: str, shared: bool) -> None:
    result = []
    for name in (backend, "reference"):
        leaves = [each.requires_grad_() for each in (numbers(2, 11, D), *dynamics(shared))]
        with backends.use(diagonal_states=name):
            (filter_sequence(leaves[0], given(*leaves[1:])) * numbers(2, 11, D, seed=5)).sum().backward()
        result.append([leaf.grad for leaf in leaves])
    for here, there in zip(*result, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-10, atol=1e-11)


def long_dynamics() -> tuple[Tensor, Tensor]:
    """As S4D begins: steps of 0.001 to 0.1, slow and fast, some of 128 rad a token; complex64."""
    step = torch.logspace(-3, -1, D, dtype=torch.float64)[:, None]
    states = torch.tensor([complex(-0.5, 3.14), complex(-0.5, 1283.0)], dtype=torch.complex128)
    return (step * states).to(torch.complex64), pairs(D, N, seed=3).to(torch.complex64)


@every_fast
def test_long_sequences_of_diagonal_states_in_float32(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """16384 tokens of size 1e4, against the same weights in float64."""
    monkeypatch.setattr(blocks, "BLOCK", 64)
    monkeypatch.setattr(convolved, "BLOCK", 256)
    u, (rates, weights) = 1e4 * numbers(1, 16384, D), long_dynamics()
    expected, left = respond(u, given(rates.to(torch.complex128), weights.to(torch.complex128)))
    with backends.use(diagonal_states=backend):
        y, after = respond(u.float(), given(rates, weights))
    assert y.dtype == torch.float32
    assert float((y - expected).norm() / expected.norm()) < 1e-5
    assert float((after - left).norm() / left.norm()) < 1e-5


def test_the_highest_powers_are_exact_in_float32() -> None:
    rates, weights = long_dynamics()
    expected = kernel(rates.to(torch.complex128), weights.to(torch.complex128), 16384)
    assert float((kernel(rates, weights, 16384) - expected).abs().max()) < 3e-5 * float(expected.abs().max())


@every_backend
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_smaller_inputs_are_computed_in_float32(backend: str, dtype: torch.dtype) -> None:
    u, small = numbers(2, 9, D).to(dtype), [pole.to(torch.complex64) for pole in dynamics(False)]
    with backends.use(diagonal_states=backend):
        y, after = respond(u, given(*small))
        expected, left = respond(u.double(), given(*(each.to(torch.complex128) for each in small)))
    assert (y.dtype, after.dtype) == (dtype, torch.complex64)
    torch.testing.assert_close(after.to(left.dtype), left, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(y, expected.to(dtype), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=3e-5)


@pytest.mark.parametrize("backend", ["convolved", "blocks"])
def test_the_powers_of_all_lags_are_never_held(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 64)
    dim, states, T = 16, 32, 2048
    rates = torch.complex(-torch.rand(dim, states), torch.randn(dim, states)).requires_grad_()
    weights, u = pairs(dim, states).to(torch.complex64).requires_grad_(), torch.randn(1, T, dim)

    def train() -> None:
        with backends.use(diagonal_states=backend):
            filter_sequence(u, given(rates, weights)).sum().backward()

    train()
    assert peak_bytes(train) < dim * T * states * 8 / 2


@pytest.mark.parametrize(
    ("T", "states", "shared", "expected"),
    [(1, 4, True, "reference"), (9, 4, True, "blocks"), (100, 64, True, "blocks"), (100, 65, True, "convolved"),
     (9, 65, True, "blocks"), (1, 65, False, "reference"), (100, 65, False, "blocks")],
)  # fmt: skip
def test_the_backend_of_diagonal_states_by_size(T: int, states: int, shared: bool, expected: str) -> None:
    rates = -pairs(*([states] if shared else [D, states])).abs() + 0j
    with backends.record_backends() as ran:
        respond(numbers(1, T, D), given(rates, pairs(D, states)))
    assert ran["diagonal_states"] == [expected]


@pytest.mark.parametrize(
    ("T", "states", "portable", "expected"),
    [(2, 4, False, "reference"), (9, 4, False, "blocks"), (16, 4, False, "convolved"), (2048, 4, False, "convolved"),
     (2047, 4, True, "convolved"), (2048, 32, True, "blocks"), (2048, 33, True, "convolved")],
)  # fmt: skip
def test_the_choice_for_outputs_alone(
    T: int, states: int, portable: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spectral, "unavailable", lambda: {"spectral": "no compiler"} if portable else {})
    assert at_once(numbers(1, T, 1), pairs(1, states)) == at_once(numbers(1, T, 1), pairs(states)) == expected
    if T < 20:
        with backends.record_backends() as ran:
            filter_sequence(numbers(1, T, D), given(-pairs(D, states).abs() + 0j, pairs(D, states)))
        assert ran["diagonal_states"] == [expected]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: respond(numbers(2, 3, D + 1), given(*dynamics(False))), "inputs must be"),
        (lambda: filter_sequence(numbers(3, D), given(*dynamics(False))), "inputs must be"),
        (lambda: respond(numbers(2, 3, D), given(pairs(N + 1), pairs(D, N))), "rates must be"),
        (
            lambda: respond(numbers(2, 3, D), given(*dynamics(True)), empty(1, D, N, torch.float64)),
            "the state must be",
        ),
    ],
)
def test_shapes_of_diagonal_states_that_do_not_fit_are_errors(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeCheckError), match=f"{message}|Type-check"):  # the shape hook may be the first
        call()
