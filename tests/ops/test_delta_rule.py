"""The delta rule: every backend against a loop over numbers, in float32, and with decays of almost 0."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.delta_rule import chunked
from seqloom.ops.delta_rule import delta as delta_rule
from seqloom.ops.delta_rule.keys import direction, unit
from tests.ops.needing import lacking

B, H, K, V = 2, 3, 4, 5
needs_native = pytest.mark.skipif("native" in lacking("delta_rule"), reason="there is no native code")
BACKENDS = ["reference", "chunked", pytest.param("native", marks=needs_native)]
every_backend = pytest.mark.parametrize("backend", BACKENDS)
every_decay = pytest.mark.parametrize("decay", ["none", "per head", "per channel"])
every_write = pytest.mark.parametrize("writes", [False, True], ids=["write is k", "write of its own"])


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def delta(q, k, v, erase, write=None, g=None, state=None, **lengths) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]  # tensors or None
    """The op by the places of `inputs`."""
    return delta_rule(q, k, v, erase=erase, write=write, log_decay=g, state=state, **lengths)


def inputs(T: int, decay: str = "per head", writes: bool = False, state: bool = True) -> list[Tensor | None]:
    """q, k, v, erase, write, g and S, with keys so short that the state stays small."""
    q, k, erase, write = (draw(B, H, T, K, seed=seed) / 3 for seed in range(4))
    sizes = {"none": None, "per head": (B, H, T), "per channel": (B, H, T, K)}[decay]
    g = None if sizes is None else -draw(*sizes, seed=5).square()
    return [
        q,
        k,
        draw(B, H, T, V, seed=6),
        erase,
        write if writes else None,
        g,
        draw(B, H, K, V, seed=7) if state else None,
    ]


def loop(q, k, v, erase, write, g, S) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[no-untyped-def]  # arrays or None
    """Number by number."""
    T, write = q.shape[2], k if write is None else write
    y, after = np.zeros((B, H, T, V)), np.zeros((B, H, K, V)) if S is None else S.numpy().copy()
    for b, h, t in np.ndindex(B, H, T):
        M = after[b, h]
        for n in range(V):
            erased = sum(float(erase[b, h, t, c]) * M[c, n] for c in range(K))
            for c in range(K):
                decay = 0.0 if g is None else float(g[b, h, t]) if g.ndim == 3 else float(g[b, h, t, c])
                M[c, n] = np.exp(decay) * M[c, n] - float(write[b, h, t, c]) * erased
                M[c, n] += float(k[b, h, t, c] * v[b, h, t, n])
            y[b, h, t, n] = sum(float(q[b, h, t, c]) * M[c, n] for c in range(K))
    return y, after


@pytest.mark.slow
@every_backend
@every_decay
@every_write
@pytest.mark.parametrize(("T", "state"), [(1, False), (1, True), (2, True), (13, False), (33, True)])
def test_every_backend_of_delta_rule_is_the_equation(
    backend: str, decay: str, writes: bool, T: int, state: bool
) -> None:
    given = inputs(T, decay, writes, state)
    with backends.use(delta_rule=backend):
        found = delta(*given)
    for tensor, wanted in zip(found, loop(*given), strict=True):
        np.testing.assert_allclose(tensor.numpy(), wanted, rtol=0, atol=1e-11)


def with_gradients(given: list[Tensor | None], backend: str) -> list[Tensor]:
    """y, S and the gradients of a fixed sum of both, to all that was given."""
    leaves = [None if x is None else x.clone().requires_grad_() for x in given]
    with backends.use(delta_rule=backend):
        y, S = delta(*leaves)
    ((y * draw(*y.shape, seed=8)).sum() + (S * draw(*S.shape, seed=9)).sum()).backward()
    return [y.detach(), S.detach(), *(x.grad for x in leaves if x is not None)]


@pytest.mark.sample(4)
@every_decay
@every_write
@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize(("T", "state"), [(1, True), (31, False), (32, True), (64, True), (65, True), (150, False)])
def test_every_backend_of_delta_rule_has_the_gradients_of_the_reference(
    backend: str, decay: str, writes: bool, T: int, state: bool
) -> None:
    given = inputs(T, decay, writes, state)
    for found, wanted in zip(with_gradients(given, backend), with_gradients(given, "reference"), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@every_decay
@every_write
@pytest.mark.parametrize("chunk", [1, 2, 8, 32, 1024])
def test_any_chunk_gives_the_same(decay: str, writes: bool, chunk: int) -> None:
    given = inputs(40, decay, writes)
    with backends.use(delta_rule="reference"):
        wanted = delta(*given)
    for found, want in zip(chunked.delta(*given, chunk=chunk), wanted, strict=True):
        torch.testing.assert_close(found, want, rtol=0, atol=1e-11)


@pytest.mark.sample(5)
@every_backend
@pytest.mark.parametrize("decay", ["per head", "per channel"])
@pytest.mark.parametrize("wipe", [-1e3, -1e30, -torch.inf])
def test_a_strong_decay_leaves_nothing_and_no_nan(backend: str, decay: str, wipe: float) -> None:
    """A token that forgets everything among others that forget little: in float32 as in float64."""
    given = inputs(100, decay)
    given[5] = given[5] * 0.01
    given[5][:, :, ::7] = wipe
    with backends.use(delta_rule="reference"):
        wanted = delta(*given)
    leaves = [None if x is None else x.float().requires_grad_() for x in given]
    with backends.use(delta_rule=backend):
        found = delta(*leaves)
    sum(each.sum() for each in found).backward()
    for each, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(each.double(), want, rtol=1e-4, atol=1e-5)
    assert all(bool(x.grad.isfinite().all()) for x in leaves if x is not None)
    assert not leaves[5].grad[:, :, ::7].any()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("decay", ["per head", "per channel"])
@pytest.mark.parametrize("each", [-1e3, -2.0, -1e-3, 0.0])
def test_long_sequences_of_large_numbers(backend: str, decay: str, each: float) -> None:
    """16,384 tokens, values to 10,000, keys of length 1: finite, and in float32 as in float64."""
    T = 16_384
    k = torch.nn.functional.normalize(draw(1, 1, T, 4), dim=-1)
    v, g = 1e4 * draw(1, 1, T, 3, seed=2), torch.full((1, 1, T, 4) if decay == "per channel" else (1, 1, T), each)
    erase = k * (g if g.ndim == 4 else g[..., None]).double().exp()
    given = [draw(1, 1, T, 4, seed=3), 0.9 * k, v, erase, None, g.double(), None]
    with backends.use(delta_rule=backend):
        wanted = delta(*given)
        leaves = [None if x is None else x.float().requires_grad_() for x in given]
        found = delta(*leaves)
    sum(out.sum() for out in found).backward()
    for out, want in zip(found, wanted, strict=True):
        assert float((out.detach().double() - want).norm() / want.norm()) < 1e-4
    assert all(bool(x.grad.isfinite().all()) for x in leaves if x is not None)


@every_backend
def test_delta_rule_of_bfloat16_sums_in_float32(backend: str) -> None:
    rounded = [None if x is None else x.bfloat16() for x in inputs(100)]
    with backends.use(delta_rule=backend):
        y, S = delta(*rounded)
        wanted, last = delta(*(None if x is None else x.double() for x in rounded))
    assert (y.dtype, S.dtype) == (torch.bfloat16, torch.float32)
    assert float((y.double() - wanted).norm() / wanted.norm()) < 4e-3
    torch.testing.assert_close(S.double(), last, rtol=1e-4, atol=1e-4)


@every_backend
@pytest.mark.parametrize("state", [False, True])
def test_values_of_no_channels(backend: str, state: bool) -> None:
    """The C asks for no memory there, so that it must not be called; the gradients are zeros."""
    q, k, v, *rest, before = inputs(5, state=state)
    assert v is not None
    leaves = [x if x is None else x.clone().requires_grad_() for x in (q, k, v[..., :0], *rest)]
    with backends.use(delta_rule=backend):
        y, after = delta(*leaves, None if before is None else before[..., :0])
    assert (y.shape, after.shape) == ((B, H, 5, 0), (B, H, K, 0))
    grads = torch.autograd.grad(
        y.sum() + after.sum(), [x for x in leaves if x is not None], allow_unused=True, materialize_grads=True
    )
    assert not any(bool(x.any()) for x in grads)


@pytest.mark.parametrize("shape", [(), (H,), (B, H, 1), (B, H, 7, 1)])
def test_a_decay_that_does_not_fit_is_an_error(shape: tuple[int, ...]) -> None:
    given = inputs(7)
    given[5] = torch.zeros(shape)
    with pytest.raises(ValueError, match="log_decay"):
        delta(*given)


@needs_native
def test_native_code_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    given = inputs(70, "per channel", True)
    with backends.use(delta_rule="native"):
        wanted = delta(*given)
        monkeypatch.setattr("seqloom.ops.native.threads", lambda numbers: 3)
        for found, want in zip(delta(*given), wanted, strict=True):
            assert torch.equal(found, want)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["chunked", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("decay", ["per head", "per channel"])
def test_slow_decays_are_not_off_in_one_direction(backend: str, decay: str) -> None:
    """A state that remembers 10,000 tokens: e^g rounded to float32 is a decay of another length, by 300 eps here."""
    T = 4096
    given = [draw(1, 1, T, K, seed=seed) / (10 if seed < 3 else 100) for seed in range(5)]
    given.append(torch.full((1, 1, T, K) if decay == "per channel" else (1, 1, T), -1e-4))

    def run(dtype: torch.dtype) -> list[Tensor]:
        leaves = [tensor.to(dtype).requires_grad_() for tensor in given]
        with backends.use(delta_rule=backend):
            y, _ = delta(*leaves)
        return [y.detach(), *torch.autograd.grad(y, leaves, draw(*y.shape, seed=9).to(dtype))]

    for rounded, exact in zip(run(torch.float32), run(torch.float64), strict=True):
        assert (rounded - exact).abs().max() <= 64 * torch.finfo(torch.float32).eps * exact.abs().max()


@pytest.mark.parametrize("normalize", [unit, direction])
def test_short_keys_in_float16_have_no_length_of_0(normalize: Callable[[Tensor], Tensor]) -> None:
    """1e-24, and the squares of 1e-4, are 0 in float16."""
    for size in (0.0, 1e-4, 1e-3, 100.0):
        x = torch.full((1, 4), size, dtype=torch.float16, requires_grad=True)
        y = normalize(x)
        (gradient,) = torch.autograd.grad(y[:, 0].sum(), x)
        wide = normalize(x.detach().double())
        assert y.dtype == torch.float16
        torch.testing.assert_close(y.double(), wide, rtol=1e-3, atol=1e-3)
        if size or normalize is unit:  # the derivative of `direction` at 0 is 1e12
            assert bool(gradient.isfinite().all())
