"""Attention: both backends against a loop over numbers, with every pattern and change, in value and gradient."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.attention import Window, attend, band_pattern, causal, fast, weights

every_backend = pytest.mark.parametrize("backend", ["reference", "kernel", "formed"])


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def everywhere(i: Tensor, j: Tensor) -> Tensor:
    return (i >= 0) & (j >= 0)


def strided(i: Tensor, j: Tensor) -> Tensor:
    return (j <= i) & ((i - j) % 3 == 0)


def before(i: Tensor, j: Tensor) -> Tensor:
    """Only strictly earlier tokens: the first query looks at nothing."""
    return j < i


def nearer(z: Tensor, q: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """ALiBi, with one slope for all heads: 0.3 after the scale, which is 1/√4."""
    return z - 0.3 * 2 * (i - j).to(z.dtype)


def lag_added(a: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Every weight adds its lag, to a single value channel that is broadcast."""
    return (a * (i - j).to(a.dtype)).sum(-1, keepdim=True)


def loop(q: np.ndarray, k: np.ndarray, v: np.ndarray, given: dict[str, Any]) -> np.ndarray:
    """Number by number; a key with a negative time is empty."""
    B, H, Tq, K = q.shape
    query_time, key_time = given.get("query_time"), given.get("key_time")
    y = np.zeros((B, H, Tq, v.shape[3]))
    for b in range(B):
        for h in range(H):
            for i in range(Tq):
                now = i if query_time is None else int(query_time[b, i])
                weights, values, times = [], [], []
                for j in range(k.shape[2]):
                    then = j if key_time is None else int(key_time[b, j])
                    if then < 0 or not bool(given.get("pattern", causal)(torch.tensor(now), torch.tensor(then))):
                        continue
                    z = float(q[b, h, i] @ k[b, h, j]) / math.sqrt(K)
                    z -= 0.3 * (now - then) if "score_change" in given else 0.0
                    weights.append(math.exp(z))
                    values.append(v[b, h, j])
                    times.append(then)
                total = sum(weights)
                for a, value, then in zip(weights, values, times, strict=True):
                    y[b, h, i] += a / total * (value + ((now - then) if "value_change" in given else 0.0))
    return y


RING = {"query_time": torch.tensor([[3, 4], [0, 1]]), "key_time": torch.tensor([[4, 1, 2, 3], [0, 1, -3, -2]])}
CASES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "causal": (7, 7, {}),
    "one token": (1, 1, {}),
    "banded": (7, 7, {"pattern": band_pattern(3)}),
    "wide band": (5, 5, {"pattern": band_pattern(50)}),
    "everywhere": (5, 7, {"pattern": everywhere}),
    "strided": (9, 9, {"pattern": strided}),
    "nothing to see": (5, 5, {"pattern": before}),
    "score change": (7, 7, {"score_change": nearer}),
    "value change": (7, 7, {"value_change": lag_added}),
    "both, banded": (7, 7, {"score_change": nearer, "value_change": lag_added, "pattern": band_pattern(4)}),
    "both, nothing to see": (5, 5, {"score_change": nearer, "value_change": lag_added, "pattern": before}),
    "fewer keys": (6, 4, {}),
    "a ring": (2, 4, RING),
    "a ring, banded": (2, 4, {**RING, "pattern": band_pattern(2)}),
    "a ring, changed": (2, 4, {**RING, "score_change": nearer, "value_change": lag_added}),
    "an empty ring": (2, 4, {"query_time": RING["query_time"], "key_time": torch.full((2, 4), -1)}),
}
every_case = pytest.mark.parametrize("case", CASES)


def inputs(Tq: int, Tk: int, V: int = 5) -> list[Tensor]:
    return [numbers(2, 3, Tq, 4), numbers(2, 3, Tk, 4, seed=1), numbers(2, 3, Tk, V, seed=2)]


def refused(backend: str, given: dict[str, Any]) -> bool:
    """Whether the backend cannot see the changes that are asked for; then it must say so."""
    changes = {name: given[name] for name in ("score_change", "value_change") if name in given}
    if backend != "kernel" or not changes:
        return False
    with pytest.raises(ValueError, match="backend 'kernel' of attention cannot do this; able are reference, formed"):
        attend(*torch.ones(3, 1, 1, 2, 2), **changes)
    return True


@every_backend
@every_case
def test_every_backend_of_attention_is_the_equation(backend: str, case: str) -> None:
    Tq, Tk, given = CASES[case]
    q, k, v = inputs(Tq, Tk)
    with backends.use(attention=backend):
        if refused(backend, given):
            return
        y = attend(q, k, v, **given)
    np.testing.assert_allclose(y.numpy(), loop(q.numpy(), k.numpy(), v.numpy(), given), atol=1e-12)


@every_case
def test_all_backends_have_the_same_gradients(case: str) -> None:
    Tq, Tk, given = CASES[case]
    result = []
    for backend in ("reference", "kernel", "formed"):
        with backends.use(attention=backend):
            if refused(backend, given):
                continue
        leaves = [tensor.requires_grad_() for tensor in inputs(Tq, Tk)]
        with backends.use(attention=backend):
            y = attend(*leaves, **given)
            if y.requires_grad:
                (y * numbers(*y.shape, seed=3)).sum().backward()
        result.append([torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves])
    assert len(result) >= 2
    for others in result[1:]:
        for a, b in zip(result[0], others, strict=True):
            assert bool(b.isfinite().all())
            torch.testing.assert_close(b, a, rtol=0, atol=1e-12)


@pytest.mark.slow
@every_backend
@every_case
def test_derivatives_of_attention_by_differences(backend: str, case: str) -> None:
    """First ones right; second ones right or refused."""
    Tq, Tk, given = CASES[case]
    if case == "an empty ring" and backend == "reference":
        return  # a constant
    leaves = [tensor.requires_grad_() for tensor in inputs(Tq, Tk)]

    def function(*tensors: Tensor) -> Tensor:
        return attend(*tensors, **given)

    with backends.use(attention=backend):
        if refused(backend, given):
            return
        assert torch.autograd.gradcheck(function, leaves, fast_mode=True, atol=1e-7, rtol=1e-6)
        try:
            assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True, atol=1e-7, rtol=1e-6)
        except RuntimeError as error:
            if "not implemented" not in str(error):
                raise


@every_backend
@pytest.mark.parametrize("changed", [{}, {"score_change": nearer, "value_change": lag_added}], ids=["plain", "changed"])
@pytest.mark.parametrize("rubbish", [1e6, math.inf, math.nan])
def test_an_empty_key_is_never_looked_at(backend: str, changed: dict[str, Any], rubbish: float) -> None:
    q, k, v = inputs(2, 4)
    with backends.use(attention=backend):
        if refused(backend, changed):
            return
        expected = attend(q, k, v, **RING, **changed)
        empty = (RING["key_time"] < 0)[:, None, :, None]
        y = attend(q, torch.where(empty, rubbish, k), torch.where(empty, rubbish, v), **RING, **changed)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


@every_backend
@pytest.mark.parametrize(("Tq", "Tk"), [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("pattern", [causal, band_pattern(2)])
def test_no_queries_or_no_keys(backend: str, Tq: int, Tk: int, pattern: Any) -> None:
    with backends.use(attention=backend):
        y = attend(*inputs(Tq, Tk), pattern=pattern)
    assert y.shape == (2, 3, Tq, 5)
    assert bool((y == 0).all())


@every_backend
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_number_types_of_attention(backend: str, dtype: torch.dtype, bound: float) -> None:
    for Tq, Tk, given in CASES.values():
        expected = attend(*inputs(Tq, Tk), **given)
        with backends.use(attention=backend):
            if refused(backend, given):
                continue
            y = attend(*(tensor.to(dtype) for tensor in inputs(Tq, Tk)), **given)
        assert y.dtype == dtype
        assert float((y.double() - expected).norm()) <= bound * max(1.0, float(expected.norm()))


def test_large_scores_do_not_overflow_in_the_fast_backends() -> None:
    q, k, v = inputs(5, 5)
    for backend, change in (("kernel", None), ("formed", None), ("formed", nearer)):
        with backends.use(attention=backend):
            y = attend(1e3 * q, 1e3 * k, v, score_change=change)
        assert bool(y.isfinite().all())


@pytest.mark.parametrize("width", [1, 2, 5])
def test_bands(width: int) -> None:
    i, j = torch.arange(5)[:, None], torch.arange(5)[None]
    assert band_pattern(width)(i, j).tolist() == [[b <= a and a - b < width for b in range(5)] for a in range(5)]


@pytest.mark.parametrize(
    ("dtype", "keys", "ran"),
    [
        (torch.bfloat16, fast.WIDENED, torch.float32),
        (torch.bfloat16, fast.WIDENED + 1, torch.bfloat16),
        (torch.float64, 4, torch.float64),
    ],
)
def test_few_keys_in_bfloat16_are_widened(
    dtype: torch.dtype, keys: int, ran: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen = fast.scaled_dot_product_attention, []

    def noted(q: Tensor, *given: Tensor, **how: Any) -> Tensor:
        seen.append(q.dtype)
        return real(q, *given, **how)

    monkeypatch.setattr(fast, "scaled_dot_product_attention", noted)
    q = torch.rand(1, 1, keys, 4, dtype=dtype)
    assert fast.causal(q, q, q, None).dtype == dtype
    assert seen == [ran]


def test_weights_are_the_softmax_over_what_is_seen() -> None:
    q, k = (torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(2))
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = (q @ k.mT / 2).masked_fill(later, -math.inf).softmax(-1)
    torch.testing.assert_close(weights(q, k), expected)


@pytest.mark.parametrize("before", [None, 0, 2])
@pytest.mark.parametrize("after", [None, 0, 2])
def test_a_window_is_all_that_lies_within_it(before: int | None, after: int | None) -> None:
    i, j = torch.arange(6)[:, None], torch.arange(6)[None]
    allowed = Window(before, after)(i, j).expand(6, 6)
    for row in range(6):
        for column in range(6):
            near = (before is None or row - column <= before) and (after is None or column - row <= after)
            assert bool(allowed[row, column]) == near
