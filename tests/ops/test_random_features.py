"""Random features: their means are the kernels, orthogonal directions are better, no overflow, no later tokens."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.linear_decay import decay
from seqloom.ops.random_features import LOWEST, draws, features, positive
from seqloom.ops.random_features.reference import features_price

K = 4
DRAWS = {"independent": draws.draw_independent, "orthogonal": draws.orthogonal}
every_draw = pytest.mark.parametrize("draw", DRAWS)
every_backend = pytest.mark.parametrize("backend", ["reference", "stable"])
LOGARITHMS = {"softmax": features.softmax_log, "hyperbolic": features.hyperbolic_log}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64) * scale


def estimates(kernel: str, draw: str, q: Tensor, k: Tensor, rows: int, times: int) -> Tensor:
    """φ(q)·φ(k) of N pairs (N, K), for each of many draws: (times, N)."""
    w = DRAWS[draw](times, rows, K, seeded(1))
    q, k = (x.expand(1, times, -1, -1) for x in (q, k))
    if kernel in LOGARITHMS:
        a, b = (LOGARITHMS[kernel](x, w).exp() for x in (q, k))
    elif kernel == "trigonometric":
        a, b = (features.trigonometric(x, w) for x in (q, k))
    else:
        a, b = (features.relu(x, w) - features.EPSILON for x in (q, k))
    return (a * b).sum(-1)[0]


def exact(kernel: str, q: Tensor, k: Tensor) -> Tensor:
    if kernel in LOGARITHMS:
        return (q * k).sum(-1).exp()
    if kernel == "trigonometric":
        return (-(q - k).square().sum(-1) / 2).exp()
    angle = torch.nn.functional.cosine_similarity(q, k, -1).acos()
    return q.norm(dim=-1) * k.norm(dim=-1) * (angle.sin() + (math.pi - angle) * angle.cos()) / (2 * math.pi)


@pytest.mark.sample(5)
@every_draw
@pytest.mark.parametrize("kernel", [*LOGARITHMS, "trigonometric", "relu"])
@pytest.mark.parametrize("rows", [3, 4, 10])
def test_the_mean_is_the_kernel(kernel: str, draw: str, rows: int) -> None:
    q, k = numbers(6, K, scale=0.5), numbers(6, K, seed=1, scale=0.5)
    result = estimates(kernel, draw, q, k, rows, 8000)
    off = (result.mean(0) - exact(kernel, q, k)) / (result.std(0) / len(result) ** 0.5)
    assert float(off.abs().max()) < 4, f"off by standard errors {off.tolist()}"


@pytest.mark.parametrize("kernel", [*LOGARITHMS, "trigonometric"])
def test_orthogonal_directions_have_a_lower_variance(kernel: str) -> None:
    q, k = numbers(8, K, scale=0.7), numbers(8, K, seed=1, scale=0.7)
    variances = {draw: estimates(kernel, draw, q, k, K, 6000).var(0).mean() for draw in DRAWS}
    assert variances["orthogonal"] < 0.9 * variances["independent"]


def test_hyperbolic_features_have_a_lower_variance_than_as_many_others() -> None:
    q = numbers(8, K, scale=0.4)
    k = -q + numbers(8, K, seed=1, scale=0.2)  # where the kernel is small, which is where it matters
    hyperbolic, plain = (
        estimates(kernel, "independent", q, k, rows, 4000).var(0).mean()
        for kernel, rows in (("hyperbolic", 4), ("softmax", 8))
    )
    assert hyperbolic < 0.7 * plain


@pytest.mark.parametrize(("rows", "width"), [(4, 4), (11, 4), (2, 4), (3, 1), (128, 64)])
def test_directions_are_orthogonal_in_each_block(rows: int, width: int) -> None:
    for w in draws.orthogonal(2, rows, width, seeded()):
        for block in w.split(width):
            gram = block @ block.mT
            assert float((gram - gram.diagonal().diag()).abs().max()) < 1e-12 * width


@every_draw
@pytest.mark.parametrize("width", [1, 3, 8])
def test_each_direction_is_a_vector_of_normal_numbers(draw: str, width: int) -> None:
    w = DRAWS[draw](6000, 2 * width, width, seeded(2))
    for row in (0, width, 2 * width - 1):
        one = w[:, row]
        assert float(one.mean(0).abs().max()) < 4 / 6000**0.5
        covariance = one.mT @ one / 6000
        assert float((covariance - torch.eye(width, dtype=w.dtype)).abs().max()) < 5 * (2 / 6000) ** 0.5
        lengths = one.square().sum(1)  # chi squared: mean K, variance 2K
        assert abs(float(lengths.mean()) - width) < 4 * (2 * width / 6000) ** 0.5
        assert float(lengths.var()) == pytest.approx(2 * width, rel=0.2)


def read(q: Tensor, k: Tensor, v: Tensor, backend: str) -> Tensor:
    with backends.use(random_features=backend):
        q, k, g, _ = positive(q, k)
    y, _ = decay(q, k, torch.cat([v, torch.ones_like(v[..., :1])], -1), g)
    return y[..., :-1] / y[..., -1:]


@pytest.mark.parametrize("T", [1, 7, 70])
def test_stabilising_cancels(T: int) -> None:
    q, k, v = (numbers(2, 3, T, 5, seed=n, scale=3.0) for n in range(3))
    torch.testing.assert_close(read(q, k, v, "stable"), read(q, k, v, "reference"), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_exponents_do_not_overflow(dtype: torch.dtype) -> None:
    q, k, v = (numbers(2, 3, 40, 5, seed=n).to(dtype) for n in range(3))
    y = read(1e4 * q, 1e4 * k[..., :1].expand_as(k), v, "stable")
    last = (k[..., 0].cummax(2).indices)[..., None].expand_as(v)  # the largest key so far outweighs all others
    torch.testing.assert_close(y, v.gather(2, last), rtol=1e-5, atol=1e-5)
    assert not bool(read(1e4 * q, 1e4 * k, v, "reference").isfinite().all())


@every_backend
def test_later_keys_change_nothing(backend: str) -> None:
    q, k, v = (numbers(1, 2, 12, 5, seed=n) for n in range(3))
    before = read(q, k, v, backend)
    for position in range(1, 12):
        far = k.clone()
        far[:, :, position:] += 300.0
        assert torch.equal(read(q, far, v, backend)[:, :, :position], before[:, :, :position])


@pytest.mark.parametrize("first", ["reference", "stable"])
@pytest.mark.parametrize("then", ["reference", "stable"])
def test_either_backend_goes_on_from_the_others_peak(first: str, then: str) -> None:
    q, k, v = (numbers(2, 3, 9, 5, seed=n, scale=4.0) for n in range(3))
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    peak, s, outputs = torch.full((2, 3), LOWEST, dtype=q.dtype), torch.zeros(2, 3, 5, 6, dtype=q.dtype), []
    for backend, part in ((first, slice(0, 4)), (then, slice(4, 9))):
        with backends.use(random_features=backend):
            a, b, g, peak = positive(q[:, :, part], k[:, :, part], peak)
        y, s = decay(a, b, v[:, :, part], g, s)
        outputs.append(y[..., :-1] / y[..., -1:])
    torch.testing.assert_close(torch.cat(outputs, 2), read(q, k, v[..., :-1], "stable"), rtol=0, atol=1e-10)
    total = (k.exp().mT @ v).log() if then == "reference" else None
    if total is not None:
        torch.testing.assert_close(s[..., -1].log(), total[..., -1], rtol=0, atol=1e-9)


@every_backend
def test_padding_leaves_the_peak_and_the_sum_alone(backend: str) -> None:
    q, k = numbers(3, 2, 6, 5), numbers(3, 2, 6, 5, seed=1)
    lengths = torch.tensor([0, 4, 6])
    keep = torch.arange(6) < lengths[:, None]
    padded = torch.where(keep[:, None, :, None], k, 500.0)
    peak = torch.tensor([[LOWEST] * 2, [LOWEST] * 2, [0.5, 9.0]], dtype=q.dtype)
    with backends.use(random_features=backend):
        _, b, g, after = positive(q, padded, peak, lengths=lengths)
        for row, length in enumerate(lengths.tolist()):
            assert float(b[row, :, length:].abs().sum()) == 0
            assert g is None or float(g[row, :, max(length, 1) :].abs().sum()) == 0
            if length:
                _, alone, _, expected = positive(*(x[row : row + 1, :, :length] for x in (q, k)), peak[row : row + 1])
                assert torch.equal(b[row : row + 1, :, :length], alone)
                assert torch.equal(after[row : row + 1], expected)
    assert backend == "reference" or float(after[0].max()) == LOWEST


def test_relu_features_are_never_0_and_sines_have_length_1() -> None:
    x, w = numbers(1, 2, 9, K), draws.orthogonal(2, 6, K, seeded())
    assert float(features.relu(x, w).min()) == features.EPSILON
    torch.testing.assert_close(features.trigonometric(x, w).square().sum(-1), torch.ones(1, 2, 9).double())


def test_exponents_are_not_formed_in_half() -> None:
    x, w = numbers(1, 2, 9, K).bfloat16(), draws.orthogonal(2, 6, K, seeded()).bfloat16().float()
    expected = features.softmax_log(x.double(), w.double())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = features.softmax_log(x, w)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)


@every_draw
def test_a_chain_of_draws_goes_on_from_its_seed(draw: str) -> None:
    w, seed = torch.empty(2, 5, K), torch.tensor(3)
    chain = []
    for _ in range(4):
        draws.redraw(w, seed, DRAWS[draw])
        chain.append((w.clone(), int(seed)))
    assert len({after for _, after in chain}) == 4
    assert all(not torch.equal(a, b) for (a, _), (b, _) in pairwise(chain))
    again, seed = torch.empty(2, 5, K, dtype=torch.bfloat16), torch.tensor(chain[1][1])
    before = torch.get_rng_state()
    draws.redraw(again, seed, DRAWS[draw])
    assert torch.equal(torch.get_rng_state(), before), "a redraw took numbers of the global generator"
    assert torch.equal(again.float(), chain[2][0]), "another number type holds other directions"
    assert int(seed) == chain[2][1]


def test_on_the_meta_device_nothing_is_drawn() -> None:
    with torch.device("meta"):
        w = torch.empty(2, 5, K)
        seed = draws.fresh().to(w.device)
        draws.redraw(w, seed, draws.orthogonal)
    assert w.is_meta


@pytest.mark.slow  # torch takes seconds to load what it computes shapes with
def test_shapes_are_known_on_the_meta_device() -> None:
    x, w = torch.empty(1, 2, 3, K, device="meta"), torch.empty(2, 5, K, device="meta")
    assert features.softmax_log(x, w).shape == (1, 2, 3, 5)


def test_exponential_features_are_priced() -> None:
    """n tokens in H heads of width K with R directions: products along them, |x|²/2, one exponential a feature."""
    n, H, R, K = 7, 2, 3, 4
    for kernel, F in (("softmax", R), ("hyperbolic", 2 * R)):
        result = features_price(n, kernel, H, R, K)
        assert (result.mul, result.exp, result.div, result.other) == (
            n * H * (R * K + K),
            n * H * F,
            n * H,
            n * H * (F - R),
        )
        assert result.add == n * H * (R * (K - 1) + K + F)
