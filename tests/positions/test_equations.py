"""Positions against their papers' equations, written as loops: outputs of one causal and one bidirectional layer."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.positions.alibi import slopes
from seqloom.positions.da import DistanceAware
from seqloom.positions.rotary import angles, order, rotate, turns
from seqloom.positions.sinusoidal import SinusoidalConfig
from seqloom.positions.xpos import XPosConfig

D, H, T = 8, 2, 9
K = D // H


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def built(position: Any, causal: bool) -> Any:
    mixer = mixer_config({"kind": "attention", "heads": H, "position": position}).build(D, None, causal).double()
    with torch.no_grad():
        for number, parameter in enumerate(mixer.parameters()):
            parameter.copy_(draw(*parameter.shape, seed=number + 1) * 0.5)
    return mixer


def defined(mixer: Any, x: Tensor, causal: bool, score: Callable[..., Tensor], value: Callable[..., Tensor]) -> Tensor:
    """`score(q_i, k_j, h, i, j)`, not yet divided by √K, and `value(v_j, i, j)`, query by query."""
    q, k, v = (x @ mixer.w_qkv.weight.T).view(T, 3, H, K).unbind(1)
    y = x.new_zeros(T, H, K)
    for i in range(T):
        keys = range(i + 1 if causal else T)
        for h in range(H):
            a = torch.stack([score(q[i, h], k[j, h], h, i, j) / math.sqrt(K) for j in keys]).softmax(0)
            y[i, h] = sum(a[n] * value(v[j, h], i, j) for n, j in enumerate(keys))
    return y.flatten(1) @ mixer.w_out.weight.T


def as_it_is(v: Tensor, i: int, j: int) -> Tensor:
    return v


def shaw(p: Any) -> tuple[Any, Any]:
    def row(i: int, j: int) -> int:
        return max(-2, min(2, j - i)) + 2

    return (
        lambda q, k, h, i, j: q @ (k + p.of_keys.weight[row(i, j)]),
        lambda v, i, j: v + p.of_values.weight[row(i, j)],
    )


def distance_aware(p: Any) -> tuple[Any, Any]:
    def score(q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
        f = (1 + p.beta[h].exp()) / (1 + (p.beta[h] - p.alpha[h] * abs(i - j)).exp())
        return (q @ k).clamp(min=0) * f

    return score, as_it_is


def transformer_xl(p: Any) -> tuple[Any, Any]:
    def score(q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
        angle = torch.tensor([(i - j) * 10000 ** (-2 * c / D) for c in range(D // 2)], dtype=torch.float64)
        r = p.w_r.weight.view(H, K, D)[h] @ torch.cat([angle.sin(), angle.cos()])
        return (q + p.u[h]) @ k + (q + p.v[h]) @ r

    return score, as_it_is


def xpos(p: Any) -> tuple[Any, Any]:
    def score(q: Tensor, k: Tensor, h: int, i: int, j: int) -> Tensor:
        total = q.new_zeros(())
        for c in range(K // 2):
            zeta = (2 * c / K + 0.4) / 1.4
            a, b = torch.complex(q[c], q[c + K // 2]), torch.complex(k[c], k[c + K // 2])
            turn = torch.polar(*torch.tensor([1.0, (i - j) * 10000 ** (-2 * c / K)], dtype=torch.float64))
            total = total + (a * b.conj() * turn).real * zeta ** ((i - j) / 512)
        return total

    return score, as_it_is


def alibi(p: Any) -> tuple[Any, Any]:
    return lambda q, k, h, i, j: q @ k - math.sqrt(K) * 2.0 ** (-8 * (h + 1) / H) * abs(i - j), as_it_is


CASES: dict[str, tuple[Any, Any]] = {
    "shaw": ({"kind": "shaw", "reach": 2}, shaw),
    "da": ("da", distance_aware),
    "transformer_xl": ("transformer_xl", transformer_xl),
    "xpos": ("xpos", xpos),
    "alibi": ("alibi", alibi),
}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_position_is_its_equation(case: str, causal: bool) -> None:
    position, equation = CASES[case]
    mixer, x = built(position, causal), draw(T, D)
    score, value = equation(mixer.position)
    expected = defined(mixer, x, causal, score, value)
    torch.testing.assert_close(mixer(x[None])[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [7, 8])
def test_sinusoids_of_any_width(width: int) -> None:
    actual = SinusoidalConfig().build(width, None)(torch.tensor([[0, 5]]))[0, 1]
    expected = [(math.sin, math.cos)[c % 2](5 / 10000 ** (2 * (c // 2) / width)) for c in range(width)]
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))


def test_both_pairings_are_equal_but_for_the_order_of_channels() -> None:
    x, (cos, sin) = draw(5, 6), turns(torch.arange(5), angles(6), torch.float64)
    neighbors = rotate(x, cos, sin, "neighbors")
    torch.testing.assert_close(rotate(x[:, order(6)], cos, sin), neighbors[:, order(6)])
    assert not torch.allclose(rotate(x, cos, sin), neighbors)


def test_slopes_for_any_number_of_heads() -> None:
    assert slopes(8) == [2.0**-n for n in range(1, 9)]
    assert slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]


def test_xpos_is_finite_at_a_million_tokens() -> None:
    mixer = mixer_config({"kind": "attention", "heads": H, "window": 4, "position": "xpos"}).build(D, None)
    x = torch.randn(1, 12, D)
    state = mixer.extend(x[:, :8], mixer.start(1))[1]
    far = {**state, "length": state["length"] + 10**6}
    y = mixer.step(x[:, 8], far)[0]
    assert bool(y.isfinite().all())
    decay = XPosConfig().build(K, None).decay
    assert math.isinf(float(torch.exp(decay.max() * 10**6).float()))  # what the formula as written would form


ALPHA = torch.tensor([0.7, -0.7], dtype=torch.float64)


def weight(distance: float, beta: float = 1.0) -> list[float]:
    """DA-Transformer's f in a head that prefers far keys and in one that prefers near ones."""
    position = DistanceAware(2).double()
    with torch.no_grad():
        position.alpha.copy_(ALPHA)
        position.beta.copy_(torch.full((2,), beta))
        return position.weight(torch.tensor([[[distance]]], dtype=torch.float64)).flatten().tolist()


def test_the_five_properties_of_distance_aware_weights() -> None:
    """Seed 002: f(0) = 1; f → 0 for αR → -∞; bounded for αR → ∞; the scale is tunable; monotonic."""
    assert weight(0) == pytest.approx([1.0, 1.0])
    assert weight(1e4)[1] == 0.0
    assert weight(1e4)[0] == pytest.approx(1 + math.e)
    assert weight(1e4, beta=3.0)[0] == pytest.approx(1 + math.e**3)
    far, near = zip(*(weight(distance) for distance in range(20)), strict=True)
    assert list(far) == sorted(far)
    assert list(near) == sorted(near, reverse=True)
