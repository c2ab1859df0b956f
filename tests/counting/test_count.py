"""The operations that torch executes are counted: each op against a count by hand; uncounted ops are reported."""

import math
from typing import Literal

import pytest
import torch
from torch.nn import functional as F

from seqloom.counting.count import Executed, Unpriced, count
from seqloom.counting.own_kernels import delta_rule, linear_decay_native, selective_scan, spectral_lag_sum
from seqloom.counting.pointwise import Call
from seqloom.counting.reductions import cumulative_sum
from seqloom.ops.delta_rule.reference import price as delta_price
from seqloom.ops.linear_decay.reference import price as decay_price

A, B = torch.rand(3, 4, dtype=torch.float64) + 0.5, torch.rand(3, 4, dtype=torch.float64) + 0.5
C = torch.complex(A, B)
SQUARE = torch.rand(2, 4, 5)
VECTOR = torch.rand(4)
SIGNAL = torch.rand(3, 16)
WORDS = torch.tensor([1, 2, 2])

CASES = {
    "add": (lambda: A + B, Executed(add=12)),
    "add a number": (lambda: A + 1.0, Executed(add=12)),
    "add in place": (lambda: A.clone().add_(B), Executed(add=12)),
    "add scaled": (lambda: torch.add(A, B, alpha=2), Executed(add=12, mul=12)),
    "subtract": (lambda: 1 - A, Executed(add=12)),
    "broadcast": (lambda: A[:, None] * B[None], Executed(mul=36)),
    "divide": (lambda: A / B, Executed(div=12)),
    "exponential": (lambda: A.exp(), Executed(exp=12)),
    "root": (lambda: A.sqrt(), Executed(other=12)),
    "inverse root": (lambda: A.rsqrt(), Executed(other=12, div=12)),
    "square": (lambda: A**2, Executed(mul=12)),
    "cube": (lambda: A**3, Executed(mul=24)),
    "relu": (lambda: A.relu(), Executed(other=12)),
    "comparison": (lambda: A > B, Executed(other=12)),
    "choice": (lambda: torch.where(torch.ones(3, 4, dtype=torch.bool), A, B), Executed(other=12)),
    "larger of two": (lambda: torch.maximum(A, B), Executed(other=12)),
    "largest": (lambda: A.amax(1), Executed(other=9)),
    "largest and where": (lambda: A.max(1), Executed(other=9)),
    "sigmoid": (lambda: A.sigmoid(), Executed(exp=12, add=12, div=12)),
    "silu": (lambda: F.silu(A), Executed(exp=12, add=12, div=12)),
    "sum": (lambda: A.sum(), Executed(add=11)),
    "sum of rows": (lambda: A.sum(1, keepdim=True), Executed(add=9)),
    "mean": (lambda: A.mean(0), Executed(add=8, div=4)),
    "running sum": (lambda: A.cumsum(1), Executed(add=9)),
    "matrices": (lambda: A @ B.mT, Executed(mul=36, add=27)),
    "batched matrices": (lambda: SQUARE.mT @ SQUARE, Executed(mul=2 * 5 * 4 * 5, add=2 * 5 * 3 * 5)),
    "matrix and vector": (lambda: SQUARE[0].mT @ VECTOR, Executed(mul=20, add=15)),
    "linear": (lambda: F.linear(SQUARE.mT, torch.ones(3, 4)), Executed(mul=120, add=90)),
    "linear with a bias": (lambda: F.linear(SQUARE.mT, torch.ones(3, 4), torch.ones(3)), Executed(mul=120, add=120)),
    "linear by oneDNN": (
        lambda: torch.ops.mkldnn._linear_pointwise(SQUARE.mT.float(), torch.ones(3, 4), torch.ones(3), "none", [], ""),
        Executed(mul=120, add=120),
    ),
    "einsum": (lambda: torch.einsum("bkd,kd->bd", SQUARE, SQUARE[0]), Executed(mul=40, add=30)),
    "complex product": (lambda: C * C, Executed(mul=48, add=24)),
    "complex by real": (lambda: C * A, Executed(mul=24)),
    "complex by a number": (lambda: C * 2.0, Executed(mul=24)),
    "complex sum": (lambda: C + C, Executed(add=24)),
    "complex and real sum": (lambda: C + A, Executed(add=12)),
    "complex quotient": (lambda: C / C, Executed(mul=72, add=36, div=24)),
    "real by complex": (lambda: A / C, Executed(mul=48, add=12, div=24)),
    "complex inverse": (lambda: C.reciprocal(), Executed(mul=24, add=12, div=24)),
    "complex negation": (lambda: -C, Executed(other=24)),
    "complex exponential": (lambda: C.exp(), Executed(mul=24, exp=12, other=24)),
    "length and angle": (lambda: torch.polar(A, B), Executed(mul=24, other=24)),
    "complex sum of all": (lambda: C.sum(), Executed(add=22)),
    "complex matrices": (lambda: C @ C.mH, Executed(mul=4 * 36, add=2 * 36 + 2 * 27)),
    "transform": (lambda: torch.fft.rfft(SIGNAL), Executed(mul=3 * 64, add=3 * 96)),
    "transform of padded": (lambda: torch.fft.rfft(SIGNAL[:, :9], 16), Executed(mul=3 * 64, add=3 * 96)),
    "transform along the first axis": (lambda: torch.fft.rfft(SIGNAL.mT, dim=0), Executed(mul=3 * 64, add=3 * 96)),
    "inverse transform": (lambda: torch.fft.irfft(C.repeat(1, 3)[:, :9], 16), Executed(mul=3 * (64 + 16), add=3 * 96)),
    "complex transform": (lambda: torch.fft.fft(C), Executed(mul=3 * 16, add=3 * 24)),
    "convolution": (lambda: F.conv1d(SQUARE, torch.ones(6, 4, 3)), Executed(mul=2 * 6 * 3 * 12, add=2 * 6 * 3 * 11)),
    "convolution by channel": (
        lambda: F.conv1d(SQUARE, torch.ones(4, 1, 3), torch.ones(4), groups=4),
        Executed(mul=2 * 4 * 3 * 3, add=2 * 4 * 3 * 3),
    ),
    "added at places": (lambda: torch.zeros(4).index_add(0, WORDS, torch.ones(3)), Executed(add=3)),
    "a copy": (lambda: (A.clone(), A.float(), torch.cat([A, B]), torch.stack([A, B])), Executed()),
    "a view": (lambda: (A.mT[None].flatten(1), A[1:], A[:, 1], A.expand(2, 3, 4)), Executed()),
    "a lookup": (lambda: (A[[0, 2]], F.embedding(WORDS, A), A.gather(0, WORDS[None])), Executed()),
    "numbers made": (lambda: (torch.zeros(3), torch.rand(3), torch.arange(3.0), torch.empty(2).normal_()), Executed()),
    "integers": (lambda: ((WORDS + 1) * WORDS // 2, WORDS.cumsum(0), WORDS > 1, WORDS.max()), Executed()),
    "masks": (lambda: (torch.ones(3, dtype=torch.bool) & (WORDS >= 2)).any(), Executed()),
}


@pytest.mark.parametrize("name", CASES)
def test_count_by_hand(name: str) -> None:
    run, expected = CASES[name]
    assert count(run) == expected


def written_norm(x: torch.Tensor) -> torch.Tensor:
    away = x - x.mean(-1, keepdim=True)
    return away / ((away * away).mean(-1, keepdim=True) + 1e-5).sqrt() * VECTOR + VECTOR


def written_softmax(x: torch.Tensor) -> torch.Tensor:
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


def written_tanh(x: torch.Tensor) -> torch.Tensor:
    e = (x * 2).exp()
    return (e - 1) / (e + 1)


def written_log_softmax(x: torch.Tensor) -> torch.Tensor:
    return x - x.exp().sum(-1, keepdim=True).log()


LSTM = torch.nn.LSTM(3, 5, batch_first=True).requires_grad_(False)
TOKENS = torch.rand(2, 7, 3)


def written_lstm(x: torch.Tensor) -> torch.Tensor:
    bias, h, c = LSTM.bias_ih_l0 + LSTM.bias_hh_l0, torch.zeros(2, 5), torch.zeros(2, 5)
    for t in range(x.shape[1]):
        i, f, g, o = (x[:, t] @ LSTM.weight_ih_l0.mT + h @ LSTM.weight_hh_l0.mT + bias).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


@pytest.mark.parametrize(
    ("kernel", "written"),
    [
        (lambda: F.layer_norm(SQUARE.mT, (4,), VECTOR, VECTOR), lambda: written_norm(SQUARE.mT)),
        (lambda: SQUARE.softmax(-1), lambda: written_softmax(SQUARE)),
        (lambda: SQUARE.log_softmax(-1), lambda: written_log_softmax(SQUARE)),
        (lambda: F.silu(A), lambda: A / (A.exp() + 1)),
        (lambda: A.tanh(), lambda: written_tanh(A)),
        (lambda: LSTM(TOKENS), lambda: written_lstm(TOKENS)),
    ],
    ids=["norm", "softmax", "log softmax", "silu", "tanh", "LSTM"],
)
def test_kernel_counts_as_its_equation(kernel, written) -> None:
    assert count(kernel) == count(written)


def test_norm_without_gain_and_bias_lacks_them() -> None:
    whole = count(lambda: F.layer_norm(SQUARE, (5,), torch.ones(5), torch.ones(5)))
    bare = count(lambda: F.layer_norm(SQUARE, (5,)))
    assert (whole.mul - bare.mul, whole.add - bare.add, whole.div - bare.div) == (40, 40, 0)


@pytest.mark.parametrize(
    ("T", "causal", "formed"),
    [
        (7, False, 7 * 7),
        (7, True, 7 * 7),  # one block of keys: the whole square
        (512, True, 512 * 512),
        (600, True, 512 * 512 + 88 * 600),  # the blocks of 64 queries up to 512 leave the last 88 keys out
        (1024, True, 512 * 512 + 512 * 1024),
        (1024, False, 1024 * 1024),
    ],
)
def test_attention_kernel_forms_whole_blocks(T: int, causal: bool, formed: int) -> None:
    q = torch.rand(2, 3, T, 4)
    with torch.no_grad():
        counted = count(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=causal))
    assert list(counted.ops) == ["_scaled_dot_product_flash_attention_for_cpu"]
    assert (counted.exp, counted.div) == (6 * formed, 6 * T)
    assert counted.mul == 6 * (formed * (4 + 1 + 4) + T * 4)
    assert counted.add == 6 * (formed * 3 + (formed - T) * (4 + 1))


def test_unknown_op_is_an_error_that_names_all_of_them() -> None:
    def run() -> None:
        torch.linalg.inv(torch.eye(3))
        A.erfinv()
        A + B

    with pytest.raises(Unpriced, match=r"aten\.erfinv\.default, aten\.linalg_inv_ex\.default") as caught:
        count(run)
    assert caught.value.ops == ["aten.erfinv.default", "aten.linalg_inv_ex.default"]


@pytest.mark.parametrize(
    "case",
    [lambda: C.tanh(), lambda: A // B, lambda: A**-1.5, lambda: torch.fft.fft2(C)],
    ids=["tanh", "floor", "pow", "fft2"],
)
def test_unknown_case_of_a_known_op_is_an_error(case) -> None:
    with pytest.raises(AssertionError, match="without a price"):
        count(case)


def test_autograd_and_custom_functions_are_seen_inside() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + x

        @staticmethod
        def backward(ctx, dy):
            return dy * 2

    x = A.clone().requires_grad_()
    assert count(lambda: Twice.apply(x)) == Executed(add=12)
    assert count(lambda: Twice.apply(x).sum().backward()) == Executed(add=12 + 11, mul=12)


def test_total_breakdown_and_share() -> None:
    counted = count(lambda: (A * B).sum() / A.exp())
    assert counted.total == 12 + 11 + 12 + 12
    assert {name: (cost.mul, cost.add, cost.div, cost.exp) for name, cost in counted.ops.items()} == {
        "mul": (12, 0, 0, 0), "sum": (0, 11, 0, 0), "exp": (0, 0, 0, 12), "div": (0, 0, 12, 0)
    }  # fmt: skip
    assert counted.per(4) == Executed(mul=3, add=round(11 / 4), div=3, exp=3)


@pytest.mark.parametrize("groups", [1, 2])
def test_matrices_of_taps_by_transforms(groups: int) -> None:
    """At each of N points a complex product takes three real ones; transforms cost what those of single taps do."""
    B, T, L, D = 2, 64, 40, 4
    N, blocks = 64, 2 * 1
    x, vectors = torch.ones(B, T, D), torch.ones(L, D)
    shape = (D, D) if groups == 1 else (groups, D // groups, D // groups)
    taps = D * D // groups
    apart = spectral_lag_sum(Call((x, vectors), {}, x))
    result = spectral_lag_sum(Call((x, torch.ones(L, *shape)), {}, x))
    one = (apart.mul - x.numel() - 4 * N * blocks * D) // (D + 2 * blocks * D)
    assert result.mul == one * (taps + 2 * blocks * D) + N * 3 * blocks * taps + x.numel()
    sums = (apart.add - 2 * N * blocks * D) // (D + 2 * blocks * D)
    each = blocks * (3 * (taps - D) + 3 * D) + taps + blocks * D
    assert result.add == sums * (taps + 2 * blocks * D) + N * each


@pytest.mark.parametrize(
    ("L", "N", "fours", "twos"),
    [(5, 16, 2 * 4, 0), (20, 32, 2 * 8, 16), (40, 64, 3 * 16, 0), (100, 128, 3 * 32, 64)],
)
def test_vectors_of_taps_by_transforms(L: int, N: int, fours: int, twos: int) -> None:
    """A transform of N points takes log4(N) steps of N/4 butterflies, and one of N/2 where N is an odd power of two.

    A butterfly of four is three complex products and eight complex sums, one of two is a product and two sums.
    """
    B, T, D = 2, 64, 4
    x, blocks = torch.ones(B, T, D), 2 * math.ceil(T / N)
    result = spectral_lag_sum(Call((x, torch.ones(L, D)), {}, x))
    lines, points = D + 2 * blocks * D, N * blocks * D
    assert result.mul == lines * (fours * 3 * 4 + twos * 4) + points * 4 + x.numel()
    assert result.add == lines * (fours * (3 * 2 + 8 * 2) + twos * (2 + 2 * 2)) + points * 2


def written_scan(u, delta, log_rate, b, c, bias, skip, gate) -> torch.Tensor:
    """As the C computes it: decays are powers of two, z σ(z) is a product."""
    rate, h = log_rate.exp() * -math.log2(math.e), torch.zeros(len(u), *log_rate.shape)
    for t in range(u.shape[1]):
        width = delta[:, t] if bias is None else F.softplus(delta[:, t] + bias)
        h = (width[..., None] * rate).exp2() * h + (width * u[:, t])[..., None] * b[:, t, None]
        y = (h * c[:, t, None]).sum(2)
        if skip is not None:
            y = y + skip * u[:, t]
        if gate is not None:
            y = y * (gate[:, t] * gate[:, t].sigmoid())
    return y


@pytest.mark.parametrize("given", ["", "bias", "skip", "gate", "bias skip gate"])
def test_selective_scan_counts_as_its_equation(given: str) -> None:
    B, T, D, N = 2, 5, 3, 4
    u, states = torch.ones(B, T, D), torch.ones(B, T, N)
    optional = {"bias": torch.ones(D), "skip": torch.ones(D), "gate": u}
    bias, skip, gate = (tensor if name in given.split() else None for name, tensor in optional.items())
    log_rate = torch.ones(D, N)
    price = selective_scan(Call((u, u, log_rate, states, states, None, bias, skip, gate, None), {}, u))
    written = count(lambda: written_scan(u, u, log_rate, states, states, bias, skip, gate))
    assert Executed(price.mul, price.add, price.div, price.exp, price.other) == written


@pytest.mark.parametrize("T", [1, 63, 64, 65, 150])
def test_a_decaying_sum_by_chunks_multiplies_the_pairs_within_each(T: int) -> None:
    B, G, H, K, V = 2, 1, 3, 4, 5
    q, v = torch.ones(B, T, G, K), torch.ones(B, T, H, V)
    pairs = sum(i % 64 + 1 for i in range(T))
    result = linear_decay_native(Call((q, q, v, None, None), {}, v))
    assert result.mul == result.add == B * (G * pairs * K + H * (pairs * V + 2 * T * K * V))
    assert result.exp == 0
    faded = linear_decay_native(Call((q, q, v, torch.ones(B, T, H), None), {}, v))
    assert faded.mul - result.mul == B * H * (2 * pairs + 2 * T * V + -(-T // 64) * K * V + 2 * T)
    assert (faded.add, faded.exp) == (result.add, B * H * T)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize(("decays", "decay"), [(None, "none"), (1, "head"), (4, "channel")])
def test_the_delta_rule_counts_as_its_equation(
    write: bool, decays: int | None, decay: Literal["none", "head", "channel"]
) -> None:
    B, T, H, K, V = 2, 5, 3, 4, 6
    keys, v = torch.ones(B, T, H, K), torch.ones(B, T, H, V)
    g = None if decays is None else torch.ones(B, T, H, decays)
    result = delta_rule(Call((keys, keys, v, keys, keys if write else None, g, None), {}, v))
    assert result == delta_price(B * T, H, K, V, decay, write)
    assert delta_rule(Call((keys, keys, v, None, None, g, None), {}, v)) == decay_price(B * T, H, K, V, decay)


@pytest.mark.parametrize(
    "x", [C, torch.zeros(0, 3), torch.zeros(0, dtype=torch.complex64)], ids=["complex", "empty", "both"]
)
def test_a_running_sum_without_a_price_is_named(x: torch.Tensor) -> None:
    assert cumulative_sum(Call((x, 0), {}, x)) is None
