"""Changes of scores: every backend against a loop over numbers, in value and gradient, tile by tile."""

import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.ops import attention, backends
from seqloom.ops.attention import Bias, around, attend, band_pattern, by_distance, causal, everywhere, fast

B, H, T, K, V = 2, 3, 13, 4, 5


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs() -> list[Tensor]:
    return [draw(B, H, T, K), draw(B, H, T, K, seed=1), draw(B, H, T, V, seed=2)]


def loop(q: Tensor, k: Tensor, v: Tensor, pattern: Any = causal, **given: Any) -> Tensor:
    y = torch.zeros(B, H, T, V, dtype=q.dtype)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                seen = [j for j in range(T) if bool(pattern(torch.tensor(i), torch.tensor(j)))]
                z = [score(q[b, h, i], k[b, h, j], h, i - j, given) for j in seen]
                sink = given["sinks"][h].exp() if "sinks" in given else 0.0
                total = sum(each.exp() for each in z) + sink
                y[b, h, i] = sum(each.exp() / total * v[b, h, j] for each, j in zip(z, seen, strict=True))
    return y


def score(q: Tensor, k: Tensor, h: int, distance: int, given: dict[str, Any]) -> Tensor:
    if "decay" in given:
        k = k * torch.exp(-given["decay"] * distance)
    z = (q * k).sum() * given.get("scale", 1 / math.sqrt(K))
    if "softcap" in given:
        z = given["softcap"] * torch.tanh(z / given["softcap"])
    if "bias" in given:
        values, first = given["bias"].values, given["bias"].first
        z = z + values[h, min(max(distance - first, 0), values.shape[1] - 1)]
    return z


DECAY = torch.tensor([0.0, 0.3, 0.01, 1.0], dtype=torch.float64)
CASES: dict[str, dict[str, Any]] = {
    "scale": {"scale": 1.0},
    "softcap": {"softcap": 0.7, "scale": 2.0},
    "sinks": {"sinks": draw(H, seed=3)},
    "long bias": {"bias": Bias(draw(H, T, seed=4))},
    "short bias": {"bias": Bias(draw(H, 4, seed=4))},
    "one bias": {"bias": Bias(draw(H, 1, seed=4))},
    "short bias and sinks": {"bias": Bias(draw(H, 5, seed=4)), "sinks": draw(H, seed=3), "scale": 1.0},
    "bias in a window": {"bias": Bias(draw(H, 5, seed=4)), "pattern": band_pattern(3)},
    "bias in a wider window": {"bias": Bias(draw(H, 5, seed=4)), "pattern": band_pattern(8)},
    "bias everywhere": {"bias": Bias(draw(H, 7, seed=4), -3), "pattern": everywhere},
    "bias around": {"bias": Bias(draw(H, 7, seed=4), -3), "pattern": around(4), "sinks": draw(H, seed=3)},
    "decay": {"decay": DECAY},
    "decay and bias": {"decay": DECAY, "bias": Bias(draw(H, 5, seed=4)), "pattern": band_pattern(6)},
}


@pytest.fixture(params=["whole", "tiles"])
def tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "tiles":
        monkeypatch.setattr(by_distance, "TILE", 5)
        monkeypatch.setattr(by_distance, "BAND", 2)
        monkeypatch.setattr(fast, "SCORES", 4 * B * H * T)
        monkeypatch.setattr(attention, "DECAY_TILE", 4)


def leaves_of(case: str) -> tuple[list[Tensor], dict[str, Any]]:
    """All that is differentiated, and the changes of scores that are made from it after q, k and v."""
    given = CASES[case]
    names = [name for name in ("sinks", "decay") if name in given]
    leaves = [*inputs(), *(given[name] for name in names)]
    if "bias" in given:
        leaves.append(given["bias"].values)
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    changed = {**given, **dict(zip(names, leaves[3:], strict=False))}
    if "bias" in given:
        changed["bias"] = Bias(leaves[-1], given["bias"].first)
    return leaves, changed


@cache
def by_loop(case: str) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The output and the gradients, number by number: once for all backends."""
    leaves, changed = leaves_of(case)
    y = loop(*leaves[:3], **changed)
    return y.detach(), torch.autograd.grad(y, leaves, draw(B, H, T, V, seed=5))


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("backend", ["formed", "by_distance", "reference"])
@pytest.mark.parametrize("case", CASES)
def test_every_backend_of_attention_scores_is_the_equation(case: str, backend: str) -> None:
    leaves, changed = leaves_of(case)
    with backends.use(attention=backend):
        if backend == "by_distance" and "softcap" in changed:
            with pytest.raises(ValueError, match="backend 'by_distance' of attention cannot do this; able are"):
                attend(*leaves[:3], **changed)
            return
        y = attend(*leaves[:3], **changed)
        actual = torch.autograd.grad(y, leaves, draw(B, H, T, V, seed=5))
    expected, gradients = by_loop(case)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    for a, b in zip(actual, gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_keys_are_left_out_by_the_bias_and_the_products_of_each_head() -> None:
    """Where no product of a head, in any row, can make up for the bias: eps² of float64 is e^-72."""
    q, k, v = inputs()
    q[1, 0], q[:, 1], k[:, 1], k[1, 2] = 3 * q[1, 0], 9 * q[:, 1], 9 * k[:, 1], 3 * k[1, 2]
    values = -30.0 * torch.arange(T, dtype=torch.float64).expand(H, T)
    kept = torch.isfinite(by_distance._biases(q, k, values, 0, T, 0, 1.0))[:, T - 1 :].sum(1)
    largest = [float(q[:, h].norm(dim=-1).max() * k[:, h].norm(dim=-1).max()) for h in range(H)]
    assert kept.tolist() == [min(T, 1 + int((2 * most - 2 * math.log(2.0**-52)) / 30)) for most in largest]
    assert kept[0] < kept[1]
    found = []
    for backend in ("by_distance", "reference"):
        with backends.use(attention=backend):
            found.append(attend(q, k, v, bias=Bias(values), scale=1.0))
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


def test_a_bias_at_any_times_and_of_heads_in_groups() -> None:
    """Rows of a ring: the bias goes by the times, wherever keys lie."""
    q, k, v, bias = draw(B, 4, 2, K), draw(B, 2, 3, K), draw(B, 2, 3, V), Bias(draw(4, 3))
    now, then = torch.tensor([[5, 6], [0, 1]]), torch.tensor([[6, 4, 5], [0, 1, -1]])
    given: dict[str, Any] = {"query_time": now, "key_time": then, "bias": bias}
    with backends.use(attention="reference"):
        expected = attend(q, k, v, **given)
    torch.testing.assert_close(attend(q, k, v, **given), expected)
    h, i, j = 3, 1, 1
    assert bias(now[:, None, :, None], then[:, None, None])[0, h, i, j] == bias.values[h, 2]


def test_the_tile_kernel_is_chosen_for_long_rows_and_holds_no_square() -> None:
    T = 600
    q = torch.randn(1, 2, T, 8, requires_grad=True)
    sizes: list[int] = []
    bias = Bias(torch.randn(2, 128, requires_grad=True))

    def note(saved: Tensor) -> Tensor:
        sizes.append(saved.numel())
        return saved

    with torch.autograd.graph.saved_tensors_hooks(note, lambda saved: saved):
        y = attend(q, q, q, bias=bias, sinks=torch.zeros(2, requires_grad=True))
    assert max(sizes) < T * T / 4
    with backends.use(attention="formed"):
        torch.testing.assert_close(y, attend(q, q, q, bias=bias, sinks=torch.zeros(2)))


def test_distant_keys_of_a_steep_bias_are_skipped_without_a_change_of_any_number() -> None:
    """With slope 1 a key 200 tokens back has weight e^-200; a long key brings it back."""
    q, k, v = (torch.randn(1, 1, 300, 4) for _ in range(3))
    bias = Bias(-torch.arange(300.0)[None])
    for long in (1.0, 1000.0):
        k[:, :, 3] *= long
        for each in (q, k, v):
            each.requires_grad_(False)
        with backends.use(attention="by_distance"):
            y = attend(q, k, v, bias=bias)
        with backends.use(attention="formed"):
            torch.testing.assert_close(y, attend(q, k, v, bias=bias), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_fading_scores_are_finite_at_any_position() -> None:
    rates = torch.linspace(0.0, 3e-3, 8)
    q = torch.randn(1, 1, 2 * attention.DECAY_TILE + 5, 8)
    at = torch.arange(q.shape[2])[None]
    here = attend(q, q, q, decay=rates)
    far = attend(q, q, q, decay=rates, query_time=at + 10**6, key_time=at + 10**6)
    assert bool(here.isfinite().all())
    torch.testing.assert_close(far, here, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_second_derivatives_of_the_tile_kernel() -> None:
    leaves = [*(leaf.requires_grad_() for leaf in inputs()), draw(H, 5, seed=4).requires_grad_()]
    leaves.append(draw(H, seed=3).requires_grad_())

    def function(q: Tensor, k: Tensor, v: Tensor, values: Tensor, sinks: Tensor) -> Tensor:
        return attend(q, k, v, bias=Bias(values), sinks=sinks, pattern=band_pattern(7))

    with backends.use(attention="by_distance"):
        assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True)
