"""The decaying sum: every backend against the reference, and the reference against a loop over numbers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from seqloom.ops import backends
from seqloom.ops.linear_decay import chunked, chunks, decay, decay_with_normalizer, native
from seqloom.ops.linear_decay.exponential_gate import stabilize_gates
from seqloom.ops.linear_decay.weighted import parts, quotient
from tests.ops.needing import lacking

B, H, K, V = 2, 3, 4, 5
BY_HEAD = ("nothing", "a number a head", "a number a head and token")
BY_CHANNEL = "by channel of the keys"
NATIVE = pytest.param(
    "native", marks=pytest.mark.skipif("native" in lacking("linear_decay"), reason="there is no native code")
)
every_backend = pytest.mark.parametrize("backend", ["reference", "chunked", NATIVE])
every_fast = pytest.mark.parametrize("backend", ["chunked", NATIVE])
every_decay = pytest.mark.parametrize("given", [*BY_HEAD, BY_CHANNEL])
every_decay_by_head = pytest.mark.parametrize("given", BY_HEAD)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def forgetting(given: str, T: int, scale: float = 0.5) -> Tensor | None:
    if given == "nothing":
        return None
    sizes = {"a number a head": (H,), "a number a head and token": (B, H, T), BY_CHANNEL: (B, H, T, K)}
    return -scale * draw(*sizes[given], seed=5).abs()


def inputs(T: int, given: str, state: bool = True) -> list[Tensor | None]:
    started = draw(B, H, K, V, seed=3) if state else None
    return [draw(B, H, T, K), draw(B, H, T, K, seed=1), draw(B, H, T, V, seed=2), forgetting(given, T), started]


def loop(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, S: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """y_t = Σ_j q_t diag(e^{g_{j+1} + … + g_t}) k_jᵀ v_j and what is left of S, pair by pair; and the last S."""
    T = q.shape[2]
    if g is None or g.ndim < 4:
        g = torch.zeros(1) if g is None else g[None, :, None, None] if g.ndim == 1 else g[..., None]
    each = g.expand(B, H, T, K).numpy()
    y, after = np.zeros((B, H, T, V)), np.zeros((B, H, K, V))
    before = np.zeros((B, H, K, V)) if S is None else S.numpy()
    for b, h in np.ndindex(B, H):
        queries, keys, values = (x[b, h].numpy() for x in (q, k, v))
        for t in range(T):
            y[b, h, t] = queries[t] * np.exp(each[b, h, : t + 1].sum(0)) @ before[b, h]
            for j in range(t + 1):
                y[b, h, t] += queries[t] * np.exp(each[b, h, j + 1 : t + 1].sum(0)) @ keys[j] * values[j]
        after[b, h] = before[b, h] * np.exp(each[b, h].sum(0))[:, None]
        for j in range(T):
            after[b, h] += np.outer(keys[j] * np.exp(each[b, h, j + 1 :].sum(0)), values[j])
    return y, after


@pytest.mark.sample(5)
@every_decay
@every_backend
@pytest.mark.parametrize(("T", "state"), [(1, False), (1, True), (2, True), (13, False), (13, True), (70, True)])
def test_every_backend_of_linear_decay_is_the_equation(backend: str, given: str, T: int, state: bool) -> None:
    given_all = inputs(T, given, state)
    with backends.use(linear_decay=backend):
        found = decay(*given_all)
    for tensor, wanted in zip(found, loop(*given_all), strict=True):
        np.testing.assert_allclose(tensor.numpy(), wanted, rtol=0, atol=1e-11)


def with_gradients(given_all: list[Tensor | None], backend: str) -> list[Tensor]:
    """y, S and the gradients of a fixed sum of both, to all that was given."""
    leaves = [None if x is None else x.clone().requires_grad_() for x in given_all]
    with backends.use(linear_decay=backend):
        y, S = decay(*leaves)
    ((y * draw(*y.shape, seed=8)).sum() + (S * draw(*S.shape, seed=9)).sum()).backward()
    return [y.detach(), S.detach(), *(x.grad for x in leaves if x is not None)]


@pytest.mark.sample(5)
@every_decay
@every_fast
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("T", [1, 2, 63, 64, 65, 200])
def test_every_backend_of_linear_decay_has_the_gradients_of_the_reference(
    backend: str, given: str, T: int, state: bool
) -> None:
    given_all = inputs(T, given, state)
    for found, wanted in zip(with_gradients(given_all, backend), with_gradients(given_all, "reference"), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-11)


@every_decay
@pytest.mark.parametrize("chunk", [1, 3, 7, 64, 1000])
def test_any_chunk_gives_the_same(given: str, chunk: int) -> None:
    q, k, v, g, S = inputs(40, given)
    found, after = chunked.decay(q, k, v, g, S, chunk=chunk)
    with backends.use(linear_decay="reference"):
        wanted, last = decay(q, k, v, g, S)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11)
    torch.testing.assert_close(after, last, rtol=0, atol=1e-11)


@pytest.mark.parametrize("gamma", [1e-300, 1e-30, 1e-3, 0.97, 1 - 2**-12, 1.0])
@pytest.mark.parametrize("each_token", [False, True])
def test_long_sequences_of_linear_decay_in_float32(gamma: float, each_token: bool) -> None:
    """16,384 tokens, numbers to 10,000: finite, and as in float64."""
    T, g = 16_384, torch.tensor([gamma], dtype=torch.float64).log()
    q, k, v = draw(1, 1, T, 2), draw(1, 1, T, 2, seed=1).abs(), 1e4 * draw(1, 1, T, 3, seed=2)
    v[..., 0] = 1e4  # all of one sign, so that nothing cancels
    g = g.expand(1, 1, T) if each_token else g
    wanted, last = decay(q, k, v, g)
    leaves = [x.float().requires_grad_() for x in (q, k, v)]
    y, S = decay(*leaves, g.float())
    (y.sum() + S.sum()).backward()
    for found, want in ((y, wanted), (S, last)):
        assert bool(found.isfinite().all())
        assert float((found.detach().double() - want).norm() / want.norm()) < 1e-4
    assert all(bool(x.grad.isfinite().all()) for x in leaves)


def test_sums_are_exact_after_a_zero_decay() -> None:
    """A token that forgets everything, amid others that forget little: in float32 as in float64, and not NaN."""
    q, k, v, g, S = inputs(100, "a number a head and token")
    for wipe in (-1e4, -1e30, -torch.inf):
        g = g * 0.01
        g[:, :, ::7] = wipe
        wanted, last = decay(q, k, v, g, S)
        leaves = [x.float().requires_grad_() for x in (q, k, v, g, S)]
        y, after = decay(*leaves)
        torch.testing.assert_close(y.double(), wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(after.double(), last, rtol=1e-4, atol=1e-5)
        (y.sum() + after.sum()).backward()
        assert all(bool(x.grad.isfinite().all()) for x in leaves)


@every_decay
@every_backend
def test_linear_decay_of_bfloat16_sums_in_float32(backend: str, given: str) -> None:
    rounded = [None if x is None else x.bfloat16() for x in inputs(200, given)]
    with backends.use(linear_decay=backend):
        y, S = decay(*rounded)
        wanted, last = decay(*(None if x is None else x.double() for x in rounded))
    assert (y.dtype, S.dtype) == (torch.bfloat16, torch.float32)
    assert float((y.double() - wanted).norm() / wanted.norm()) < 4e-3
    torch.testing.assert_close(S.double(), last, rtol=1e-4, atol=1e-4)


def test_autocast_does_not_round_the_sums() -> None:
    whole = [None if x is None else x.float() for x in inputs(130, "a number a head")]
    wanted, last = decay(*whole)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, S = decay(*whole)
    assert torch.equal(y, wanted)
    assert torch.equal(S, last)


def test_strides_do_not_matter() -> None:
    q, k, v, g, S = inputs(70, "a number a head")
    wanted, _ = decay(q, k, v, g, S)
    y, _ = decay(*(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)), g, S)
    torch.testing.assert_close(y, wanted, rtol=0, atol=1e-12)


@pytest.mark.sample(5)
@every_backend
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("wipe", [-1000.0, -torch.inf])
def test_channels_that_forget_all_hold_their_last_token(wipe: float, dtype: torch.dtype, backend: str) -> None:
    """And no gradient is NaN; what is wiped out has none."""
    leaves = [x.to(dtype) for x in inputs(70, BY_CHANNEL)]
    leaves[3][..., :2] = wipe
    q, k, v, g, S = (x.requires_grad_() for x in leaves)
    with backends.use(linear_decay=backend):
        y, after = decay(q, k, v, g, S)
    (y.sum() + after.sum()).backward()
    torch.testing.assert_close(after[:, :, :2], k[:, :, -1, :2, None] * v[:, :, -1, None])
    alone = (q[..., :2] * k[..., :2]).sum(-1, keepdim=True) * v
    with backends.use(linear_decay=backend):
        rest, _ = decay(q[..., 2:], k[..., 2:], v, g[..., 2:], S[:, :, 2:])
    torch.testing.assert_close(y, alone + rest)
    assert all(bool(x.grad.isfinite().all()) for x in (q, k, v, g, S))
    assert not g.grad[..., :2].any()
    assert not S.grad[:, :, :2].any()


def test_decay_of_a_channel_below_the_range_of_float32() -> None:
    """Over 200 tokens e^{-2·200} is 0 in float32: outputs, states and gradients are those of float64."""
    q, k, v, _, S = inputs(200, BY_CHANNEL)
    g = -2 * draw(B, H, 200, K, seed=5).abs()
    found, wanted = (
        with_gradients([x.to(dtype) for x in (q, k, v, g, S)], "chunked") for dtype in (torch.float32, torch.float64)
    )
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(), (1,), (H, 7), (B, H, 1), (B, H, 7, 1)])
def test_a_decay_that_does_not_fit_is_an_error(shape: tuple[int, ...]) -> None:
    q, k, v, _, S = inputs(7, "nothing")
    with pytest.raises(ValueError, match="log_decay"):
        decay(q, k, v, torch.zeros(shape), S)


@pytest.mark.sample(5)
@every_backend
@pytest.mark.parametrize("given", [*BY_HEAD, BY_CHANNEL])
@pytest.mark.parametrize("T", [1, 64, 150])
def test_keys_that_heads_share_are_keys_of_each(backend: str, given: str, T: int) -> None:
    """Two heads of keys, each for three of values: outputs, states and all gradients."""
    served, heads = 3, 6
    g = {
        "nothing": None,
        "a number a head": -draw(heads, seed=5).abs(),
        "a number a head and token": -draw(B, heads, T, seed=5).abs(),
        BY_CHANNEL: -draw(B, heads, T, K, seed=5).abs(),
    }[given]
    q, k, v = draw(B, 2, T, K), draw(B, 2, T, K, seed=1), draw(B, heads, T, V, seed=2)
    leaves = [x.requires_grad_() for x in (q, k, v, draw(B, heads, K, V, seed=3))]
    ends = draw(B, heads, T, V, seed=6), draw(B, heads, K, V, seed=7)

    def found(q: Tensor, k: Tensor, backend: str) -> list[Tensor]:
        with backends.use(linear_decay=backend):
            results = decay(q, k, leaves[2], g, leaves[3])
        loss = sum((each * end).sum() for each, end in zip(results, ends, strict=True))
        return [*results, *torch.autograd.grad(loss, leaves)]

    wanted = found(*(x.repeat_interleave(served, 1) for x in leaves[:2]), "reference")
    for one, other in zip(found(*leaves[:2], backend), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_heads_that_keys_do_not_divide_are_an_error() -> None:
    with pytest.raises(ValueError, match="3 heads of v are no multiple of 2 heads of q and k"):
        decay(draw(1, 2, 4, K), draw(1, 2, 4, K), draw(1, 3, 4, V))


def slopes(
    equal: Callable[..., tuple[Tensor, Tensor]], given_all: list[Tensor | None], ends: str, wanted: list[int]
) -> list[Tensor]:
    """What `ends`, y or S or both, send to those of q, k, v, g and S that are `wanted`."""
    leaves = [None if x is None else x.clone().requires_grad_(place in wanted) for place, x in enumerate(given_all)]
    out = [each for name, each in zip("yS", equal(*leaves, 8), strict=True) if name in ends]
    loss = sum((each * draw(*each.shape, seed=8)).sum() for each in out)
    asked = [leaves[place] for place in wanted]
    return list(torch.autograd.grad(loss, asked, allow_unused=True, materialize_grads=True))


@pytest.mark.parametrize("wipe", [-1e4, -torch.inf])
def test_a_sum_with_zero_decay_has_no_gradient(wipe: float) -> None:
    """In float32 too: exactly none for a g whose exponentials are all 0, close for the others."""
    given_all = inputs(24, "a number a head and token")
    given_all[3][:, :, 3::4] = wipe
    wanted = slopes(chunks.by_head, given_all, "yS", [0, 1, 2, 3, 4])
    found = slopes(chunks.by_head, [x.float() for x in given_all], "yS", [0, 1, 2, 3, 4])
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)
    assert not found[3][:, :, 3::4].any()


@pytest.mark.slow
def test_sums_over_their_normaliser() -> None:
    sums = draw(2, 3, 5).abs().requires_grad_()

    def read(sums: Tensor) -> Tensor:
        s, z = parts(sums)
        return quotient(s, z + 0.5)

    torch.testing.assert_close(read(sums), sums[..., :-1] / (sums[..., -1:] + 0.5), rtol=0, atol=0)
    assert torch.autograd.gradcheck(read, sums)
    assert torch.autograd.gradgradcheck(read, sums)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["chunked", NATIVE])
@pytest.mark.parametrize("logit", [5.0, 6.0, 6.5, 8.0])
def test_a_constant_decay_is_not_off_in_one_direction(backend: str, logit: float) -> None:
    """Rounded alike at each of 4,096 tokens, e^g alone left sums of positive numbers off by 37 to 199 eps in C."""
    g = logsigmoid(torch.tensor(logit)).expand(1, 1, 4096)
    one, keys = torch.ones(1, 1, 4096, 1), 1 + torch.rand(1, 1, 4096, 1, generator=torch.Generator().manual_seed(0))
    leaves = [tensor.clone().requires_grad_() for tensor in (one, keys, one, g)]
    with backends.use(linear_decay=backend):
        y, _ = decay(*leaves)
    exact = [tensor.double().detach().requires_grad_() for tensor in leaves]
    wanted, _ = decay(*exact)
    bound = 32 * torch.finfo(torch.float32).eps
    torch.testing.assert_close(y.double(), wanted, rtol=bound, atol=0)
    slopes, right = torch.autograd.grad(y.sum(), leaves), torch.autograd.grad(wanted.sum(), exact)
    for slope, correct in zip(slopes, right, strict=True):
        torch.testing.assert_close(slope.double(), correct, rtol=bound, atol=bound * float(correct.max()))


@torch.no_grad()
def test_gates_are_as_exact_as_what_they_are_made_of_however_large_the_maximum() -> None:
    log_f = 3 + 0.1 * draw(1, 1, 4096, seed=1).float()
    log_i = 20000 * torch.rand(1, 1, 4096, generator=torch.Generator().manual_seed(2))
    g, gain, m = stabilize_gates(log_f, log_i)
    assert float(m.max()) > 1e4
    eps = torch.finfo(torch.float32).eps
    exact = log_f[..., 1:].double() + (m[..., :-1].double() - m[..., 1:].double())
    bound = 2 * eps * (log_f[..., 1:].double().abs() + exact.abs())
    assert bool(((g[..., 1:].double() - exact).abs() <= bound).all())
    torch.testing.assert_close(gain.double(), (log_i.double() - m.double()).exp(), rtol=1e-5, atol=1e-30)


def aside(T: int, heads: int = H) -> dict[str, Tensor]:
    """Weights of tokens, one of them 0, and what goes past the sum."""
    weight = draw(B, heads, T, seed=6)
    weight[:, :, T // 2] = 0
    return {"weight": weight, "skip": draw(heads, seed=7)}


@pytest.mark.slow
@every_decay
@every_backend
@pytest.mark.parametrize("T", [1, 2, 70])
def test_weights_and_what_goes_past_the_sum(backend: str, given: str, T: int) -> None:
    (q, k, v, g, S), extra = inputs(T, given), aside(T)
    with backends.use(linear_decay=backend):
        y, after = decay(q, k, v, g, S, **extra)
    wanted, last = loop(q, k, v * extra["weight"][..., None], g, S)
    np.testing.assert_allclose(y.numpy(), wanted + (extra["skip"][:, None, None] * v).numpy(), rtol=0, atol=1e-11)
    np.testing.assert_allclose(after.numpy(), last, rtol=0, atol=1e-11)


@pytest.mark.sample(5)
@every_decay
@every_backend
@pytest.mark.parametrize("T", [1, 2, 70])
@pytest.mark.parametrize("state", [False, True])
def test_a_normaliser_is_the_sum_of_ones(backend: str, given: str, T: int, state: bool) -> None:
    (q, k, v, g, _), weight = inputs(T, given), aside(T)["weight"]
    S = draw(B, H, K, V + 1, seed=3) if state else None
    with backends.use(linear_decay=backend):
        y, z, after = decay_with_normalizer(q, k, v, g, S, weight=weight)
        wanted, last = decay(q, k, torch.cat([v, torch.ones_like(v[..., :1])], -1), g, S, weight=weight)
    torch.testing.assert_close(torch.cat([y, z[..., None]], -1), wanted, rtol=0, atol=1e-11)
    torch.testing.assert_close(after, last, rtol=0, atol=1e-11)


def weighted_gradients(
    backend: str, given_all: list[Tensor | None], extra: dict[str, Tensor], ones: bool
) -> list[Tensor]:
    """What comes out and the gradients of a fixed sum of it, with fewer heads of keys than of values."""
    leaves = [None if x is None else x.clone().requires_grad_() for x in given_all]
    more = {name: x.clone().requires_grad_() for name, x in extra.items()}
    with backends.use(linear_decay=backend):
        found = (decay_with_normalizer if ones else decay)(*leaves, **more)
    sum((y * draw(*y.shape, seed=8 + n)).sum() for n, y in enumerate(found)).backward()
    return [*(y.detach() for y in found), *(x.grad for x in (*leaves, *more.values()) if x is not None)]


@pytest.mark.sample(5)
@every_decay_by_head
@every_fast
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("T", [1, 63, 64, 200])
def test_gradients_of_weights_ones_and_what_goes_past(backend: str, given: str, ones: bool, T: int) -> None:
    q, k, v, g, _ = inputs(T, given)
    given_all = [q[:, :1], k[:, :1], v, g, draw(B, H, K, V + int(ones), seed=3)]
    extra = aside(T)
    if ones:
        del extra["skip"]
    found, wanted = (weighted_gradients(name, given_all, extra, ones) for name in (backend, "reference"))
    for a, e in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@every_backend
def test_derivatives_of_weights_by_differences(backend: str) -> None:
    q, k, v, g, _ = inputs(5, BY_HEAD[2])
    extra = aside(5)
    leaves = [x.requires_grad_() for x in (q, k, v, g, draw(B, H, K, V + 1, seed=3), *extra.values())]

    def both(q: Tensor, k: Tensor, v: Tensor, g: Tensor, S: Tensor, weight: Tensor, skip: Tensor) -> tuple[Tensor, ...]:
        y, after = decay(q, k, v, g, S[..., :-1], weight=weight, skip=skip)
        return (y, after, *decay_with_normalizer(q, k, v, g, S, weight=weight))

    with backends.use(linear_decay=backend):
        assert torch.autograd.gradcheck(both, leaves, fast_mode=True, atol=1e-8, rtol=1e-7)
        assert torch.autograd.gradgradcheck(both, leaves, fast_mode=True, atol=1e-8, rtol=1e-7)


@every_backend
def test_the_gradient_of_one_of_two_outputs(backend: str) -> None:
    leaves = [x.requires_grad_() for x in inputs(70, BY_HEAD[2])[:4]]
    for which in (0, 1):
        with backends.use(linear_decay=backend):
            found = torch.autograd.grad(decay_with_normalizer(*leaves)[which].sum(), leaves, allow_unused=True)
            split = torch.cat([leaves[2], torch.ones_like(leaves[2][..., :1])], -1)
            y, _ = decay(*leaves[:2], split, leaves[3])
            wanted = torch.autograd.grad((y[..., :-1], y[..., -1])[which].sum(), leaves, allow_unused=True)
        for a, e in zip(found, wanted, strict=True):
            a, e = (torch.zeros(()) if x is None else x for x in (a, e))
            torch.testing.assert_close(a.double(), e.double() + torch.zeros_like(a).double(), rtol=0, atol=1e-11)


@every_backend
def test_weights_in_the_padding_are_not_read(backend: str) -> None:
    (q, k, v, g, S), weight, lengths = inputs(9, BY_HEAD[2]), aside(9)["weight"], torch.tensor([4, 9])
    spoilt = weight.clone()
    spoilt[0, :, 4:] = torch.nan
    with backends.use(linear_decay=backend):
        y, after = decay(q, k, v, g, S, weight=spoilt, lengths=lengths)
        wanted, last = decay(*(x[:1, :, :4] for x in (q, k, v, g)), S[:1], weight=weight[:1, :, :4])
    torch.testing.assert_close(y[:1, :, :4], wanted, rtol=0, atol=1e-11)
    torch.testing.assert_close(after[:1], last, rtol=0, atol=1e-11)


@pytest.mark.skipif("native" in lacking("linear_decay"), reason="there is no native code")
@pytest.mark.parametrize("served", [1, 2])
def test_both_orders_of_the_c_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch, served: int) -> None:
    """Chunk after chunk, or all states first, where a row has too few heads for the threads."""
    v, g = draw(1, 2, 200, 40, seed=2), forgetting("a number a head and token", 200)[:1, :2]
    keys = [draw(1, 2 // served, 200, 30, seed=seed) for seed in (0, 1)]
    found, sizes = [], native._sizes
    for apart in (0, 1):
        monkeypatch.setattr(native, "_sizes", lambda *of, apart=apart: {**sizes(*of), "apart": apart})
        given_all = [*keys, v, g, draw(1, 2, 30, 41, seed=3)]
        found.append(weighted_gradients("native", given_all, {"weight": draw(1, 2, 200, seed=6)}, True))
    for a, e in zip(*found, strict=True):
        assert torch.equal(a, e)


@pytest.mark.skipif("native" in lacking("linear_decay"), reason="there is no native code")
@pytest.mark.parametrize(
    ("rows", "heads", "threads", "apart"), [(1, 1, 1, 0), (1, 1, 2, 1), (2, 2, 2, 0), (1, 7, 2, 1), (3, 3, 2, 0)]
)
def test_states_go_first_where_threads_would_wait(rows: int, heads: int, threads: int, apart: int) -> None:
    q, v, before = torch.zeros(rows, 4096, heads, 8), torch.zeros(rows, 4096, heads, 8), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert native._sizes(q, v, 8)["apart"] == apart
    finally:
        torch.set_num_threads(before)


def test_one_token_is_read_by_the_equation_and_more_by_chunks() -> None:
    chunks_by = "chunked" if "native" in lacking("linear_decay") else "native"
    for T, wanted in ((1, "reference"), (2, chunks_by), (300, chunks_by)):
        with backends.record_backends() as ran:
            decay(*inputs(T, "nothing"))
        assert ran["linear_decay"] == [wanted]
