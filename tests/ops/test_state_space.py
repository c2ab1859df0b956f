"""The three state-space models: each backend against loops over numbers, and `parallel` against the reference."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.state_space import generating, krylov, low_rank, outputs, run_joint, single
from seqloom.ops.state_space.discretise import DENSE, bilinear
from seqloom.ops.state_space.hippo import legs, normal
from tests.at_once import first

B, D, N, M, H = 3, 5, 4, 2, 2
F64 = torch.float64
every_backend = pytest.mark.parametrize("backend", ["reference", "parallel"])
every_method = pytest.mark.parametrize("method", DENSE)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def turning(*shape: int, seed: int = 0) -> Tensor:
    return torch.complex(draw(*shape, seed=seed), draw(*shape, seed=seed + 100))


def weights(model: Callable[..., object]) -> tuple[Tensor, ...]:
    A = legs(N)[0] + 0.1 * draw(N, N, seed=1)
    if model is run_joint:
        return A, draw(N, D, seed=2), draw(D, N, seed=3), torch.tensor(0.1, dtype=F64)
    if model is single:
        return A, draw(N, seed=2), draw(D, M, N, seed=3), draw(D, seed=4).abs() / 5
    eigenvalues = torch.complex(-draw(H).abs() - 0.1, 3 * draw(H, seed=1))
    return eigenvalues, turning(H, seed=2), turning(H, seed=3), turning(D, H, seed=4), draw(D, seed=5).abs() + 0.1


def begun(model: Callable[..., object], rows: int = B) -> Tensor:
    if model is run_joint:
        return draw(rows, N, seed=7)
    return draw(rows, D, N, seed=7) if model is single else turning(rows, D, H, seed=7)


MODELS = [(run_joint, (method,)) for method in DENSE] + [(single, (method,)) for method in DENSE] + [(low_rank, ())]
every_model = pytest.mark.parametrize(
    ("model", "how"), MODELS, ids=["-".join([model.__name__, *how]) for model, how in MODELS]
)
each_model = pytest.mark.parametrize(
    ("model", "how"), [MODELS[0], MODELS[3], MODELS[6]], ids=["joint", "single", "low_rank"]
)


def dense(half: Tensor) -> Tensor:
    return torch.cat([half, half.conj()], -1)


@every_backend
@every_method
@pytest.mark.parametrize("T", [1, 2, 9])
def test_joint_is_the_recurrence(backend: str, method: str, T: int) -> None:
    u, (A, driven, C, step), x = draw(B, T, D), weights(run_joint), begun(run_joint)
    with backends.use(state_space=backend):
        y, after = run_joint(u, lambda: (A, driven, C, step), method, x)
    A_bar, B_bar = DENSE[method](A, driven, step)
    for b in range(B):
        state = x[b]
        for t in range(T):
            state = A_bar @ state + B_bar @ u[b, t]
            torch.testing.assert_close(y[b, t], C @ state, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(after[b], state, rtol=1e-11, atol=1e-11)


@pytest.mark.sample(5)
@every_backend
@every_method
@pytest.mark.parametrize("T", [1, 2, 9])
def test_single_is_the_recurrence(backend: str, method: str, T: int) -> None:
    u, (A, driven, C, steps), x = draw(B, T, D), weights(single), begun(single)
    with backends.use(state_space=backend):
        y, after = single(u, lambda: (A, driven, C, steps), method, x)
    for d in range(D):
        A_bar, B_bar = DENSE[method](A, driven, float(steps[d]))
        for b in range(B):
            state = x[b, d]
            for t in range(T):
                state = A_bar @ state + B_bar * u[b, t, d]
                torch.testing.assert_close(y[b, t, d], C[d] @ state, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(after[b, d], state, rtol=1e-11, atol=1e-11)


@every_backend
@pytest.mark.parametrize("T", [1, 2, 9])
def test_low_rank_is_the_dense_recurrence(backend: str, T: int) -> None:
    """Over both halves of the pairs, with the inverse of the whole matrix."""
    u, (eigenvalues, P, driven, C, steps), x = draw(B, T, D), weights(low_rank), begun(low_rank)
    with backends.use(state_space=backend):
        y, after = low_rank(u, lambda: (eigenvalues, P, driven, C, steps), x)
    A = dense(eigenvalues).diag() - torch.outer(dense(P), dense(P).conj())
    for d in range(D):
        A_bar, B_bar = (torch.linalg.inv(torch.eye(N) - steps[d] / 2 * A) @ x for x in (A, dense(driven)[:, None]))
        A_bar, B_bar = torch.eye(N) + steps[d] * A_bar, steps[d] * B_bar[:, 0]
        for b in range(B):
            state = dense(x[b, d])
            for t in range(T):
                state = A_bar @ state + B_bar * u[b, t, d]
                expected = dense(C[d]) @ state
                assert float(expected.imag.abs()) < 1e-10
                torch.testing.assert_close(y[b, t, d], expected.real, rtol=1e-11, atol=1e-11)
            torch.testing.assert_close(after[b, d], state[:H], rtol=1e-11, atol=1e-11)


def with_gradients(
    model: Callable[..., tuple[Tensor, Tensor]],
    how: tuple[str, ...],
    backend: str,
    T: int,
    lengths: Tensor | None,
    fresh: bool = False,
) -> list[Tensor]:
    """Outputs at real tokens, the state, and the gradients of a fixed sum of both."""
    leaves = [x.clone().requires_grad_() for x in (draw(B, T, D), *weights(model), begun(model))]
    with backends.use(state_space=backend):
        if fresh:
            y = outputs(model.__name__.removeprefix("run_"), leaves[0], lambda: tuple(leaves[1:-1]), *how)
        else:
            y, x = model(leaves[0], lambda: tuple(leaves[1:-1]), *how, leaves[-1], lengths=lengths)
    real = torch.ones(B, T) if lengths is None else torch.arange(T) < lengths[:, None]
    y = y * real.view(B, T, *[1] * (y.ndim - 2))
    parts = [y] if fresh else [y, torch.view_as_real(x) if x.is_complex() else x]
    sum((part * draw(*part.shape, seed=8)).sum() for part in parts).backward()
    return [part.detach() for part in parts] + [
        torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves
    ]


@pytest.mark.slow
@every_model
@pytest.mark.parametrize("T", first(5, (1, 2, 9, 33, 64, 3, 5, 8, 17, 65)))
def test_every_backend_of_state_space_has_the_gradients_of_the_reference(
    model: Callable[..., object], how: tuple[str, ...], T: int
) -> None:
    padded = torch.tensor([0, (T + 1) // 2, T])
    for lengths, fresh in ((None, True), (None, False), (padded, False)):
        actual, expected = (with_gradients(model, how, name, T, lengths, fresh) for name in ("parallel", "reference"))
        for a, b in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("T", [1, 2, 3, 7, 8, 31, 32, 33, 100, 257])
def test_krylov_kernel_is_its_powers(T: int) -> None:
    A, C = draw(D, N, N) / 4, draw(D, M, N, seed=1)
    right = draw(D, N, 3, seed=2)
    actual = krylov.kernel(krylov.powers(A, T), right, C, T)
    expected = torch.stack([C @ torch.linalg.matrix_power(A, n) @ right for n in range(T)], -1)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def hippo_system(pairs: int, channels: int, steps: tuple[float, float]) -> tuple[Tensor, ...]:
    eigenvalues, _, P, driven = normal(2 * pairs)
    return eigenvalues, P, driven, turning(channels, pairs), torch.linspace(*steps, channels, dtype=F64)


def dense_kernel(system: tuple[Tensor, ...], L: int) -> Tensor:
    """C Ā^l B̄ (D, L) by the dense A and repeated products."""
    eigenvalues, P, driven, C, steps = system
    A = dense(eigenvalues).diag() - torch.outer(dense(P), dense(P).conj())
    left = torch.eye(len(A)) - A * (steps / 2)[:, None, None]
    A_bar = torch.linalg.solve(left, torch.eye(len(A)) + A * (steps / 2)[:, None, None])
    x = torch.linalg.solve(left, (dense(driven) * steps[:, None])[..., None])
    taps = []
    for _ in range(L):
        taps.append((dense(C)[:, None] @ x)[:, 0, 0].real)
        x = A_bar @ x
    return torch.stack(taps, 1)


def s4_kernel(system: tuple[Tensor, ...], L: int) -> Tensor:
    return generating.kernel(*system, generating.differences(*system[:2], system[4], L), L)


@pytest.mark.parametrize("L", [1, 2, 3, 4, 5, 10, 15, 16, 63, 64, 101, 1000])
@pytest.mark.parametrize("pairs", [1, 8])
def test_kernel_from_roots_of_unity_is_its_powers(L: int, pairs: int) -> None:
    """Odd and even L: at even ones z = -1 is among the roots."""
    system = hippo_system(pairs, 4, (1e-3, 0.5))
    torch.testing.assert_close(s4_kernel(system, L), dense_kernel(system, L), rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("L", [1, 8, 100, 4096])
def test_kernel_in_float32_at_the_steps_that_people_begin_with(L: int) -> None:
    """The shortest steps too, where I - Ā^L and the points near z = 1 are lost by a plain computation."""
    system = hippo_system(32, 6, (1e-3, 1e-1))
    small = tuple(x.to(torch.complex64 if x.is_complex() else torch.float32) for x in system)
    expected = dense_kernel(tuple(x.to(torch.complex128 if x.is_complex() else F64) for x in small), L)
    error = (s4_kernel(small, L) - expected).norm(dim=1) / expected.norm(dim=1)
    assert float(error.max()) < 2e-5


def test_a_kernel_for_more_tokens_has_the_same_initial_values() -> None:
    system = hippo_system(8, 3, (1e-2, 0.3))
    torch.testing.assert_close(s4_kernel(system, 96)[:, :41], s4_kernel(system, 41), rtol=0, atol=1e-12)


def test_parts_of_channels_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = with_gradients(low_rank, (), "parallel", 33, None)
    monkeypatch.setattr("seqloom.ops.state_space.generating.AT_ONCE", 1)
    for a, b in zip(with_gradients(low_rank, (), "parallel", 33, None), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_woodbury_is_the_inverse() -> None:
    eigenvalues, P, _, _, steps = weights(low_rank)
    A = dense(eigenvalues).diag() - torch.outer(dense(P), dense(P).conj())
    A_bar = torch.linalg.solve(torch.eye(N) - A * (steps / 2)[:, None, None], A * steps[:, None, None])
    away = generating.differences(eigenvalues, P, steps, 1)[0]
    basis = torch.cat([torch.eye(H), 1j * torch.eye(H)], 1).to(A_bar).T  # each real and imaginary part alone
    for n, each in enumerate(basis):
        turned = (A_bar @ dense(each))[:, :H]
        torch.testing.assert_close(away[:, :, n], torch.cat([turned.real, turned.imag], 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@each_model
def test_long_sequences_of_state_space_in_float32(
    model: Callable[..., object], how: tuple[str, ...], scale: float
) -> None:
    """16,384 tokens of up to 10,000: finite, as are the gradients, and as in float64."""
    T = 16_384
    if model is low_rank:
        exact = hippo_system(4, 2, (1e-3, 1e-1))
    else:
        A, driven = legs(4)
        one = (A, driven, draw(2, 1, 4), torch.tensor([1e-3, 1e-1], dtype=F64))
        exact = one if model is single else (A, draw(4, 2), draw(2, 4), torch.tensor(1e-3, dtype=F64))
    u = scale * draw(1, T, 2)
    expected, _ = model(u, lambda: exact, *how)
    leaves = [x.to(torch.complex64 if x.is_complex() else torch.float32).requires_grad_() for x in (u, *exact)]
    state = u.new_zeros(1, 4) if model is run_joint else u.new_zeros(1, 2, 4)
    state = state + 0j if model is low_rank else state
    y, after = model(leaves[0], lambda: tuple(leaves[1:]), *how, state)
    (y.square().mean() + after.abs().sum()).backward()
    assert bool(after.isfinite().all())
    assert all(bool(x.grad.isfinite().all()) for x in leaves)
    assert float((y.detach().double() - expected).norm() / expected.norm()) < 1e-4


@every_backend
@each_model
def test_state_space_of_bfloat16_sums_in_float32(
    backend: str, model: Callable[..., object], how: tuple[str, ...]
) -> None:
    u = draw(B, 30, D).bfloat16()
    small = tuple(x.to(torch.complex64 if x.is_complex() else torch.float32) for x in weights(model))
    with backends.use(state_space=backend):
        y, x = model(u, lambda: small, *how, begun(model))
        expected, last = model(u.double(), lambda: small, *how, begun(model))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            again, _ = model(u, lambda: small, *how, begun(model))
    assert y.dtype == torch.bfloat16
    assert x.dtype == (torch.complex64 if model is low_rank else torch.float32)
    assert torch.equal(again, y)
    assert float((y.double() - expected).norm() / expected.norm()) < 4e-3
    torch.testing.assert_close(x.to(last), last, rtol=1e-4, atol=1e-4)


@each_model
def test_state_space_of_no_rows_and_of_no_tokens(model: Callable[..., object], how: tuple[str, ...]) -> None:
    y, x = model(draw(B, 0, D), lambda: weights(model), *how, begun(model))
    assert y.shape == ((B, 0, D, M) if model is single else (B, 0, D))
    assert torch.equal(x, begun(model))
    y, x = model(draw(0, 6, D), lambda: weights(model), *how, begun(model, 0))
    assert (y.shape[:2], len(x)) == ((0, 6), 0)
    u = draw(B, 3, D)
    y, x = model(u, lambda: weights(model), *how)
    expected, after = model(u, lambda: weights(model), *how, torch.zeros_like(begun(model)))
    assert torch.equal(x, after)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        outputs(model.__name__.removeprefix("run_"), u, lambda: weights(model), *how), y, rtol=0, atol=1e-12
    )


@each_model
def test_arguments_of_state_space_that_do_not_fit_raise_an_error(
    model: Callable[..., object], how: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        model(draw(B, 3, D + 1), lambda: weights(model), *how)
    with pytest.raises(ValueError, match="do not fit"):
        model(draw(B, 3, D), lambda: weights(model), *how, begun(model)[..., :-1])


def test_joint_is_exactly_causal() -> None:
    u, system = draw(B, 70, D), weights(run_joint)
    for read in (
        lambda: run_joint(u, lambda: system, "bilinear")[0],
        lambda: outputs("joint", u, lambda: system, "bilinear"),
    ):
        u[:, 40:] = 0.5
        y = read()
        u[:, 40:] += 1e6
        assert torch.equal(read()[:, :40], y[:, :40])


def test_one_token_is_read_by_the_equation_and_more_in_parallel() -> None:
    for T, expected in ((1, "reference"), (2, "parallel")):
        with backends.record_backends() as ran:
            low_rank(draw(B, T, D), lambda: weights(low_rank))
        assert ran["state_space"] == [expected]


def test_bilinear_keeps_low_rank_stable_at_any_step() -> None:
    system = (*hippo_system(4, 2, (1e-3, 1e-1))[:4], torch.tensor([1e-6, 1e6], dtype=F64))
    y, _ = low_rank(torch.ones(1, 300, 2, dtype=F64), lambda: system)
    assert bool(y.isfinite().all())
    A, driven = legs(4)
    assert float(torch.linalg.eigvals(bilinear(A, driven, 1e3)[0]).abs().max()) < 1
