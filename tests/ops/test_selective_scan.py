"""The selective scan: every backend against plain loops over numbers, in value and gradient; sizes and lengths."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.scan.selective_scan import OP, doubling, kernels, selective, sequential
from tests.ops.needing import lacking

D, N = 3, 2
LACKING = lacking("selective_scan")
BACKENDS = [name for name in OP.backends if name != "triton"]


def where_there_is_one(name: str) -> pytest.param:
    return pytest.param(name, marks=pytest.mark.skipif(name in LACKING, reason=LACKING.get(name, "")))


every_backend = pytest.mark.parametrize("backend", [where_there_is_one(name) for name in BACKENDS])
every_fast = pytest.mark.parametrize("backend", [where_there_is_one(n) for n in BACKENDS if n != "reference"])
around = pytest.mark.parametrize("whole", [True, False], ids=["with all around it", "bare"])


@pytest.fixture(autouse=True)
def _short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential, "SPAN", 4)  # so that short sequences cross from span to span
    monkeypatch.setattr(doubling, "SPAN", 5)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs(B: int, T: int, D: int, N: int, whole: bool) -> dict[str, Tensor]:
    """All arguments of `selective` but lengths; with `whole`, also those of the operations around the scan."""
    delta = numbers(B, T, D, seed=1)
    given = {"u": numbers(B, T, D), "delta": delta if whole else delta.exp(), "log_rate": numbers(D, N, seed=2)}
    given |= {"B": numbers(B, T, N, seed=3), "C": numbers(B, T, N, seed=4), "state": numbers(B, D, N, seed=5)}
    around = {"bias": numbers(D, seed=6), "skip": numbers(D, seed=7), "gate": numbers(B, T, D, seed=8)}
    return given | (around if whole else {})


def written(given: dict[str, Tensor]) -> tuple[np.ndarray, np.ndarray]:
    """The equation number by number."""
    x = {name: each.detach().numpy() for name, each in given.items()}
    h, y = x["state"].copy(), np.zeros(x["u"].shape)
    for b, t, d in np.ndindex(y.shape):
        u, width = x["u"][b, t, d], x["delta"][b, t, d]
        if "bias" in x:
            width = math.log1p(math.exp(width + x["bias"][d]))
        for n in range(h.shape[2]):
            h[b, d, n] = math.exp(-width * math.exp(x["log_rate"][d, n])) * h[b, d, n] + width * u * x["B"][b, t, n]
            y[b, t, d] += x["C"][b, t, n] * h[b, d, n]
        if "bias" in x:
            z = x["gate"][b, t, d]
            y[b, t, d] = (y[b, t, d] + x["skip"][d] * u) * z / (1 + math.exp(-z))
    return y, h


@pytest.mark.sample(5)
@around
@every_backend
@pytest.mark.parametrize("T", [1, 2, 4, 7, 13])
def test_every_backend_of_selective_scan_is_the_equation(backend: str, whole: bool, T: int) -> None:
    given = inputs(2, T, D, N, whole)
    expected, end = written(given)
    fresh = {**given, "state": torch.zeros(2, D, N).double()}
    with backends.use(selective_scan=backend):
        y, after = selective(**given)
        actual = selective(**fresh), selective(**{**fresh, "state": None})
    np.testing.assert_allclose(y.numpy(), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(after.numpy(), end, rtol=0, atol=1e-12)
    for a, b in zip(*actual, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def gradients(backend: str, whole: bool, T: int, lengths: Tensor | None) -> list[Tensor]:
    """Of everything, from a loss over what is read in two pieces and over the state after them."""
    leaves = {name: each.requires_grad_() for name, each in inputs(2, T, D, N, whole).items()}
    along = [name for name in ("u", "delta", "B", "C", "gate") if name in leaves]
    head, tail = ({name: leaves[name][:, part] for name in along} for part in (slice(0, 2), slice(2, None)))
    with backends.use(selective_scan=backend):
        first, middle = selective(**{**leaves, **head})
        second, after = selective(**{**leaves, **tail, "state": middle}, lengths=lengths)
    y = torch.cat([first, second], 1)
    ((y * numbers(2, T, D, seed=9)).sum() + (after * numbers(2, D, N, seed=10)).sum()).backward()
    return [leaf.grad for leaf in leaves.values()]


@pytest.mark.sample(5)
@around
@every_fast
@pytest.mark.parametrize("T", [3, 7, 12])
@pytest.mark.parametrize("lengths", [None, (1, 0)])
def test_every_backend_of_selective_scan_has_the_gradients_of_the_reference(
    backend: str, whole: bool, T: int, lengths: tuple[int, ...] | None
) -> None:
    until = None if lengths is None else torch.tensor(lengths)
    for actual, expected in zip(
        gradients(backend, whole, T, until), gradients("reference", whole, T, until), strict=True
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)


@every_backend
@pytest.mark.parametrize("part", ["y", "after"])
def test_a_loss_over_one_of_both_outputs(backend: str, part: str) -> None:
    given = {name: each.requires_grad_() for name, each in inputs(2, 5, D, N, True).items()}
    grads = []
    for name in (backend, "reference"):
        with backends.use(selective_scan=name):
            out = selective(**given)[part == "after"]
        grads.append(torch.autograd.grad(out.square().sum(), list(given.values()), allow_unused=True))
    for actual, expected in zip(*grads, strict=True):
        nothing = torch.zeros(())
        torch.testing.assert_close(
            (nothing if actual is None else actual).sum(),
            (nothing if expected is None else expected).sum(),
            check_dtype=False,
        )


@around
@every_backend
def test_padding_is_never_read(backend: str, whole: bool) -> None:
    """Not even NaN of it, in value or gradient; y is 0 there, and a row without tokens keeps its state."""
    T, lengths = 9, torch.tensor([0, 1, 5, 9])
    given = inputs(4, T, D, N, whole)
    real = (torch.arange(T) < lengths[:, None])[:, :, None]
    along = [name for name in ("u", "delta", "B", "C", "gate") if name in given]
    for name in along:
        given[name] = torch.where(real, given[name], math.nan)
    given = {name: each.requires_grad_() for name, each in given.items()}
    with backends.use(selective_scan=backend):
        y, after = selective(**given, lengths=lengths)
        for row, length in enumerate(lengths.tolist()):
            one = slice(row, row + 1)
            parts = {name: given[name][one, :length] for name in along}
            alone, end = selective(**{**given, **parts, "state": given["state"][one]})
            torch.testing.assert_close(y[one, :length], alone, rtol=0, atol=1e-13)
            torch.testing.assert_close(after[one], end, rtol=0, atol=1e-13)
        grads = torch.autograd.grad(y.sum() + after.sum(), list(given.values()))
    assert torch.equal(y[~real.expand_as(y)], torch.zeros_like(y[~real.expand_as(y)]))
    assert torch.equal(after[0], given["state"][0])
    assert all(bool(grad.isfinite().all()) for grad in grads)
    for name, grad in zip(given, grads, strict=True):
        assert name not in along or not grad[~real.expand_as(grad)].any()


@every_fast
def test_a_huge_later_input_changes_nothing_before_it(backend: str) -> None:
    given = {name: each.float() for name, each in inputs(2, 41, D, N, True).items()}
    with backends.use(selective_scan=backend):
        y, _ = selective(**given)
        for position, size in ((1, 1e4), (6, 1e9), (40, -1e9)):
            late = {name: each.clone() for name, each in given.items()}
            for name in ("u", "delta", "B", "C", "gate"):
                late[name][:, position:] = size
            assert torch.equal(selective(**late)[0][:, :position], y[:, :position])


@pytest.mark.slow
@every_fast
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-11), (torch.float32, 1e-4), (torch.bfloat16, 2e-2)])
def test_inputs_of_any_size(backend: str, dtype: torch.dtype, bound: float) -> None:
    """To ±1e4 each: against float64 of the same numbers, and every gradient is finite."""
    for size in (0.0, 1.0, 1e2, 1e4):
        given = {name: (size * each.tanh()).to(dtype) for name, each in inputs(2, 65, D, N, True).items()}
        given["log_rate"] = torch.tensor([[-80.0, 0.0], [3.0, 10.0], [5.0, -5.0]]).to(dtype)
        exact = {name: each.double() for name, each in given.items()}
        leaves = {name: each.requires_grad_() for name, each in given.items()}
        with backends.use(selective_scan=backend):
            y, after = selective(**leaves)
        with torch.no_grad(), backends.use(selective_scan="reference"):
            expected, end = selective(**exact)
        assert y.dtype == dtype
        assert after.dtype == torch.promote_types(dtype, torch.float32)
        assert bool(y.isfinite().all())
        assert float((y.detach().double() - expected).norm()) <= bound * float(expected.norm()), size
        assert float((after.detach().double() - end).norm()) <= bound * float(end.norm()), size
        grads = torch.autograd.grad(y.sum(), list(leaves.values()))
        assert all(bool(grad.isfinite().all()) for grad in grads), size


@pytest.mark.slow
@every_fast
def test_long_sequences_stay_exact(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """16,384 tokens in float32, forgotten at once, slowly, or hardly ever."""
    monkeypatch.undo()
    T = 16_384
    given = inputs(1, T, 3, 1, False) | {"log_rate": torch.tensor([[2.0], [-3.0], [-9.0]]).double()}
    given["delta"] = 0.1 * given["delta"].clamp(max=10)
    leaves = {name: each.float().requires_grad_() for name, each in given.items()}
    with backends.use(selective_scan=backend):
        y, _ = selective(**leaves)
    with torch.no_grad(), backends.use(selective_scan="sequential"):
        expected, _ = selective(**given)
    assert float(((y.detach() - expected).norm(dim=1) / expected.norm(dim=1)).max()) < 1e-4
    assert all(bool(grad.isfinite().all()) for grad in torch.autograd.grad(y.sum(), list(leaves.values())))


@pytest.mark.parametrize("compiled", [True, False])
def test_the_choice(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.KERNEL, "available", lambda: compiled)
    if compiled and "native" in LACKING:
        pytest.skip(LACKING["native"])
    with backends.record_backends() as ran:
        selective(**inputs(1, 5, D, N, True))
    assert ran == {"selective_scan": ["native" if compiled else "sequential"]}


GOOD = inputs(2, 3, D, N, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": numbers(2, 4, D)}, "delta must be"),
        ({"gate": numbers(2, 3, D + 1)}, "gate must be"),
        ({"u": numbers(3, D)}, "u must be"),
        ({"log_rate": numbers(D + 1, N)}, "log_rate must be"),
        ({"B": numbers(2, 3, N + 1)}, "B must be"),
        ({"C": numbers(2, 2, N)}, "C must be"),
        ({"state": numbers(1, D, N)}, "state must be"),
        ({"bias": numbers(1)}, "bias must be"),
        ({"skip": numbers(D + 1)}, "skip must be"),
    ],
)
def test_shapes_of_selective_scan_that_do_not_fit_are_errors(change: dict[str, Tensor], message: str) -> None:
    call: Callable[[], object] = lambda: selective(**{**GOOD, **change})  # noqa: E731
    with pytest.raises((ValueError, TypeCheckError), match=f"{message}|Type-check"):  # the shape hook may be the first
        call()
