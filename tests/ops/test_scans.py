"""The recurrence of channels: every backend against a loop over numbers, in value and gradient; sizes and lengths."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.scan import OP, native, portable, scan
from tests.ops.needing import lacking

N = 3
LACKING = lacking("scans")
FAST = [name for name in OP.backends if name not in ("reference", "triton")]
HERE = [name for name in ("reference", *FAST) if name not in LACKING]
KINDS = {
    "real, fixed": (torch.float64, True, torch.float64),
    "real": (torch.float64, False, torch.float64),
    "complex, fixed": (torch.complex128, True, torch.complex128),
    "complex": (torch.complex128, False, torch.complex128),
    "real by complex": (torch.float64, False, torch.complex128),
    "complex by real, fixed": (torch.complex128, True, torch.float64),
}
"""the number type of a, whether it is the same at every token, and the type of b"""


def where_there_is_one(name: str) -> pytest.param:
    return pytest.param(name, marks=pytest.mark.skipif(name in LACKING, reason=LACKING.get(name, "")))


every_backend = pytest.mark.parametrize("backend", [where_there_is_one(name) for name in ("reference", *FAST)])
every_fast = pytest.mark.parametrize("backend", [where_there_is_one(name) for name in FAST])
every_kind = pytest.mark.parametrize("kind", KINDS)


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def inputs(kind: str, B: int, T: int, width: int = N) -> tuple[Tensor, Tensor, Tensor]:
    """a with |a| ≤ 1, b and a state."""
    of_a, fixed, of_b = KINDS[kind]
    a = numbers(*((width,) if fixed else (B, T, width)), seed=1, dtype=of_a)
    both = torch.promote_types(of_a, of_b)
    return a / (0.3 + a.abs()), numbers(B, T, width, seed=2, dtype=of_b), numbers(B, width, seed=3, dtype=both)


def written(a: Tensor, b: Tensor, state: Tensor | None) -> np.ndarray:
    """The equation, number by number."""
    every = np.broadcast_to(a.numpy(), b.shape)
    h = np.zeros(b.shape, dtype=complex)
    for row, t, n in np.ndindex(*b.shape):
        before = h[row, t - 1, n] if t else 0.0 if state is None else state.numpy()[row, n]
        h[row, t, n] = every[row, t, n] * before + b.numpy()[row, t, n]
    return h


@pytest.mark.sample(5)
@every_kind
@every_backend
@pytest.mark.parametrize("T", [1, 2, 7, 33, 70])
def test_every_backend_of_scans_is_the_equation(backend: str, kind: str, T: int) -> None:
    a, b, past = inputs(kind, 2, T)
    for state in (None, past):
        with backends.use(scans=backend):
            h, after = scan(a, b, state)
        assert h.dtype == torch.promote_types(a.dtype, b.dtype)
        np.testing.assert_allclose(h.numpy(), written(a, b, state), rtol=0, atol=1e-12)
        assert torch.equal(after, h[:, -1])


@pytest.mark.parametrize("wide", [0, 10**6])
@pytest.mark.parametrize("T", [31, 32, 36, 37, 1100])
def test_blocks_of_any_size(wide: int, T: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block, whole ones, whole ones and a rest, and blocks of blocks."""
    monkeypatch.setattr(portable, "WIDE", wide)
    for kind in ("complex, fixed", "real"):
        a, b, state = inputs(kind, 2, T)
        with backends.use(scans="blocked"):
            h, _ = scan(a, b, state)
        np.testing.assert_allclose(h.numpy(), written(a, b, state), rtol=0, atol=1e-12)


def gradients(backend: str, kind: str, T: int, lengths: Tensor | None) -> list[Tensor]:
    """Of a, b and state, from a loss over what is read in two pieces and over the state after them."""
    a, b, state = (each.requires_grad_() for each in inputs(kind, 2, T))
    with backends.use(scans=backend):
        first, middle = scan(a if a.ndim == 1 else a[:, :2], b[:, :2], state)
        second, after = scan(a if a.ndim == 1 else a[:, 2:], b[:, 2:], middle, lengths=lengths)
    h = torch.cat([first, second], 1)
    if lengths is not None:
        h = h * (torch.arange(T) < lengths[:, None] + 2)[:, :, None]
    loss = (h * numbers(2, T, N, seed=5, dtype=h.dtype)).sum() + (after * numbers(2, N, seed=6, dtype=h.dtype)).sum()
    (loss.real if h.is_complex() else loss).backward()
    return [a.grad, b.grad, state.grad]


@pytest.mark.sample(5)
@every_kind
@every_fast
@pytest.mark.parametrize("T", [3, 40])
@pytest.mark.parametrize("lengths", [None, (1, 0)])
def test_every_backend_of_scans_has_the_gradients_of_the_reference(
    backend: str, kind: str, T: int, lengths: tuple[int, ...] | None
) -> None:
    until = None if lengths is None else torch.tensor(lengths)
    for found, wanted in zip(gradients(backend, kind, T, until), gradients("reference", kind, T, until), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-11)


@every_fast
def test_third_derivatives(backend: str) -> None:
    """Of Σ h², for one channel and a state: h_2 = a² s + a b_1 + b_2."""
    a, s = torch.tensor([0.7], dtype=torch.float64, requires_grad=True), 2.0
    with backends.use(scans=backend):
        h, _ = scan(a, torch.tensor([[[3.0], [5.0]]]).double(), torch.tensor([[s]]).double())
    found = h[0, 1, 0] ** 2
    for _ in range(3):
        (found,) = torch.autograd.grad(found.sum(), a, create_graph=True)
    torch.testing.assert_close(found, 6 * (2 * s * a + 3.0) * (2 * s), rtol=1e-12, atol=0)  # f''' of f² is 6 f' f''


@every_kind
@every_backend
def test_any_cut_of_scans_and_any_other_backend_go_on(backend: str, kind: str) -> None:
    a, b, past = inputs(kind, 3, 40)
    with backends.use(scans="reference"):
        wanted, end = scan(a, b, past)
    for other in HERE:
        for cut in (1, 35):
            with backends.use(scans=backend):
                first, state = scan(a if a.ndim == 1 else a[:, :cut], b[:, :cut], past)
            before = state.clone()
            with backends.use(scans=other):
                second, after = scan(a if a.ndim == 1 else a[:, cut:], b[:, cut:], state)
            torch.testing.assert_close(torch.cat([first, second], 1), wanted, rtol=0, atol=1e-12)
            torch.testing.assert_close(after, end, rtol=0, atol=1e-12)
            assert torch.equal(state, before)


@every_kind
@every_backend
def test_padding_on_the_right_goes_nowhere(backend: str, kind: str) -> None:
    """Not even NaN, and not into a gradient."""
    T, lengths = 9, torch.tensor([0, 1, 5, 9])
    a, b, past = inputs(kind, 4, T)
    real = (torch.arange(T) < lengths[:, None])[:, :, None]
    b = torch.where(real, b, math.nan).requires_grad_()
    a = (a if a.ndim == 1 else torch.where(real, a, math.nan)).requires_grad_()
    with backends.use(scans=backend):
        h, after = scan(a, b, past, lengths=lengths)
        for row, length in enumerate(lengths.tolist()):
            one = slice(row, row + 1)
            alone, end = scan(a if a.ndim == 1 else a[one, :length], b[one, :length], past[one])
            torch.testing.assert_close(h[one, :length], alone, rtol=0, atol=1e-13)
            torch.testing.assert_close(after[one], end, rtol=0, atol=1e-13)
        assert bool(h.isfinite().all())
    assert torch.equal(after[0], past[0])
    (h.abs().square() * real).sum().backward()
    assert bool(a.grad.isfinite().all())
    assert bool((b.grad.isfinite() | ~real).all())


@pytest.mark.sample(5)
@every_fast
@pytest.mark.parametrize("kind", ["real", "complex", "complex, fixed"])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_long_sequences(backend: str, kind: str, size: float) -> None:
    """16,384 tokens in single precision, of channels that keep all (|a| = 1), forget slowly, or at once (a = 0)."""
    T = 16_384
    of_a, fixed, of_b = KINDS[kind]
    keeps = torch.tensor([1.0, 1 - 1e-4, 0.9, 1e-30, 0.0], dtype=torch.float64)
    shape = keeps.shape if fixed else (1, T, 5)
    turn = torch.polar(keeps, numbers(5, seed=4)) if of_a.is_complex else keeps
    single = torch.complex64 if of_a.is_complex else torch.float32
    a = turn.to(single).expand(shape).contiguous().requires_grad_()
    b = (size * numbers(1, T, 5, seed=2, dtype=of_b)).to(single).requires_grad_()
    with backends.use(scans=backend):
        h, after = scan(a, b)
    with backends.use(scans="blocked"), torch.no_grad():
        wide = torch.complex128 if of_a.is_complex else torch.float64
        wanted, _ = scan(a.to(wide), b.to(wide))
    assert h.dtype == after.dtype == single
    off, most = (x.detach().abs().amax((0, 1)) for x in (h - wanted, wanted))
    assert bool((off < 1e-4 * most).all())
    h.abs().square().sum().backward()
    assert bool(a.grad.isfinite().all())
    assert bool(b.grad.isfinite().all())


@every_backend
def test_half_precision(backend: str) -> None:
    """Rounded where it is read and written, and nowhere between: 500 small steps still add up."""
    a, b = torch.ones(2, dtype=torch.bfloat16), torch.full((1, 500, 2), 0.01, dtype=torch.bfloat16)
    with backends.use(scans=backend):
        h, after = scan(a, b)
    assert h.dtype == torch.bfloat16
    assert after.dtype == torch.float32
    torch.testing.assert_close(after, 500 * b[:, 0].float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_backend_of_scans_by_size(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.KERNEL, "available", lambda: compiled)
    if compiled and "native" in LACKING:
        pytest.skip(LACKING["native"])
    for T, wanted in ((1, "reference"), (5, "native" if compiled else "blocked")):
        a, b, _ = inputs("real", 2, T)
        with backends.record_backends() as ran:
            scan(a, b)
        assert ran == {"scans": [wanted]}


A, B, STATE = inputs("real", 2, 4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: scan(A[:, :3], B), "a must be"),
        (lambda: scan(A[0, 0, :2], B), "a must be"),
        (lambda: scan(A[0, 0], B[0]), "b must be"),
        (lambda: scan(A, B, STATE[:1]), "state must be"),
        (lambda: scan(A, B, STATE.to(torch.complex128)), "the state is complex"),
    ],
)
def test_arguments_of_scans_that_do_not_fit_raise_an_error(call: Callable[[], object], said: str) -> None:
    with pytest.raises((ValueError, TypeCheckError), match=f"{said}|Type-check"):  # the shape hook may be the first
        call()


BACKENDS = [name for name in OP.backends if name not in {*lacking("scans"), "triton"}]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("T", [2, 9, 40])
def test_the_scan_is_the_peers(backend: str, T: int) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.RecurrentGemmaConfig(hidden_size=6, lru_width=6, num_attention_heads=2, num_hidden_layers=1)
    peer = transformers.models.recurrent_gemma.modeling_recurrent_gemma.RecurrentGemmaRglru(config)
    torch.manual_seed(0)
    a, b, state = torch.rand(2, T, 6), torch.randn(2, T, 6), torch.randn(2, 6)
    result = []
    for ours in (True, False):
        given = [each.clone().requires_grad_() for each in (a, b, state)]
        if ours:
            with backends.use(scans=backend):
                h, after = scan(*given)
        else:
            reset = torch.zeros(2, T, 1, dtype=torch.bool)
            h, after = peer._rnn_scan(given[1], given[0], reset, given[2])
        result.append([h, after, *torch.autograd.grad(h.square().sum() + after.sum(), given)])
    for one, other in zip(*result, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
