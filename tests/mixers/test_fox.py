"""FoX's sums over long texts, in float32 and in pieces; gates at the ends of their range; its memory.

Forgetting attention, query by query, with the product of the gates between a query and a key.

    o_i = Σ_{j≤i} F_ij e^{q_i·k_j/√d} v_j / Σ_{j≤i} F_ij e^{q_i·k_j/√d}
    F_ij = Π_{l=j+1}^{i} f_l,   f_l = σ(w_fᵀ x_l + b_f)

Source: Lin et al., Forgetting Transformer, arXiv:2503.02130, section 3.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.analysis.measure import peak_bytes
from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops.attention.forgetting import BLOCK, forgetting
from tests.mixers.equation import Case, check_equation
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, dot, out, projected, sigmoid

D, H = 8, 2


def built(context: int | None = None, dtype: torch.dtype = torch.float64) -> Mixer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "fox", "heads": H}).build(D, context).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def defined(q: Tensor, k: Tensor, v: Tensor, g: Tensor, window: int | None = None) -> Tensor:
    """The equation over all pairs at once, in float64."""
    q, k, v, g = (each.double() for each in (q, k, v, g))
    c, T = g.cumsum(-1), q.shape[2]
    z = q @ k.mT / q.shape[-1] ** 0.5 + c[..., :, None] - c[..., None, :]
    distance = torch.arange(T)[:, None] - torch.arange(T)
    hidden = (distance < 0) if window is None else (distance < 0) | (distance >= window)
    return z.masked_fill(hidden, -torch.inf).softmax(-1) @ v


@pytest.mark.slow
@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("rate", [0.0, 0.01, 2.0, 1e3])
def test_float32_is_the_equation_after_thousands_of_gates(rate: float, window: int | None, width: int) -> None:
    """Scores are off by what float32 rounds sums of a block to; counted from the beginning, by 16 times as much."""
    q, k, v = (draw(1, H, 2048, width, dtype=torch.float32, seed=n) for n in range(3))
    g = -rate * draw(1, H, 2048, dtype=torch.float32).abs()
    result = forgetting(q, k, v, g, window=window)
    of_a_block = torch.finfo(torch.float32).eps * BLOCK * rate
    torch.testing.assert_close(result.double(), defined(q, k, v, g, window), rtol=0, atol=4e-6 + of_a_block)


@torch.no_grad()
@pytest.mark.parametrize("context", [None, 150])
def test_pieces_and_steps_of_fox_are_the_whole(context: int | None) -> None:
    mixer, x = built(context), draw(2, 300, D)
    y, state = mixer.extend(x[:, :140], mixer.start(2))
    z, state = mixer.extend(x[:, 140:290], state)
    parts = [y, z]
    for t in range(290, 300):
        y, state = mixer.step(x[:, t], state, reuse=t > 294)
        parts.append(y[:, None])
    torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [4, 16])
def test_gradients_of_the_gates_are_the_equations(width: int) -> None:
    given = [draw(1, H, 200, width, seed=n).requires_grad_() for n in range(3)]
    g = (-draw(1, H, 200).abs()).requires_grad_()
    weights = draw(1, H, 200, width)
    gradients = torch.autograd.grad((forgetting(*given, g) * weights).sum(), [*given, g])
    expected = torch.autograd.grad((defined(*given, g) * weights).sum(), [*given, g])
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_second_derivatives_are_the_equations() -> None:
    given = [draw(1, H, 30, 16, seed=n).requires_grad_() for n in range(3)]
    g = (-draw(1, H, 30).abs()).requires_grad_()

    def second(run: Callable[..., Tensor]) -> Tensor:
        gradients = torch.autograd.grad(run(*given, g, window=20).square().sum(), [*given, g], create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in gradients), g)[0]

    torch.testing.assert_close(second(forgetting), second(defined), rtol=0, atol=1e-9)


@pytest.mark.parametrize("width", [4, 16])
def test_in_bfloat16_it_is_the_equation_rounded(width: int) -> None:
    q, k, v = (draw(1, H, 100, width, dtype=torch.bfloat16, seed=n) for n in range(3))
    g = -draw(1, H, 100, dtype=torch.float32).abs()
    y = forgetting(q, k, v, g)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), defined(q, k, v, g), rtol=0, atol=0.05)


@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_gates_of_0_and_of_1(logit: float) -> None:
    mixer = built(dtype=torch.float32)
    with torch.no_grad():
        mixer.get_parameter("w_f.bias").fill_(logit)
    x = (1e4 * draw(1, 300, D, dtype=torch.float32)).requires_grad_()
    y = mixer(x)
    y.sum().backward()
    assert bool(y.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in mixer.parameters() if parameter.grad is not None)


@pytest.mark.slow
@torch.no_grad()
def test_gates_of_0_leave_the_token_itself() -> None:
    mixer, x = built(dtype=torch.float32), draw(1, 4096, D, dtype=torch.float32)
    mixer.get_parameter("w_f.bias").fill_(-1e4)
    torch.testing.assert_close(mixer(x)[:, -1], mixer(x[:, -1:])[:, 0], rtol=0, atol=1e-5)


@pytest.mark.slow
@torch.no_grad()
def test_no_number_for_each_pair_is_held() -> None:
    mixer, x = built(dtype=torch.float32), draw(1, 4096, D, dtype=torch.float32)
    assert peak_bytes(lambda: mixer(x)) < 4096**2


def test_heads_of_fox_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        mixer_config({"kind": "fox", "heads": 3}).build(D, None)


def fox(x: Array, w: Weights, heads: int) -> Array:
    """x (T, D) -> (T, D)."""
    (T, D), y = x.shape, np.zeros_like(x)
    made, logits = projected(x, w["w_qkv"]), projected(x, w["w_f"]) + w["b_f"]
    for h in range(heads):
        q, k, v = (cut(made[:, n * D : (n + 1) * D], h, heads) for n in range(3))
        o, f = cut(y, h, heads), [sigmoid(number) for number in logits[:, h]]
        for i in range(T):
            powers = [
                math.prod(f[j + 1 : i + 1]) * math.exp(dot(q[i], k[j]) / math.sqrt(q.shape[1])) for j in range(i + 1)
            ]
            for j, power in enumerate(powers):
                o[i] += power / sum(powers) * v[j]
    return out(y, w)


LETTERS = {"w_qkv.weight": "w_qkv", "w_f.weight": "w_f", "w_f.bias": "b_f", "w_out.weight": "w_out"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "fox": ({"kind": "fox", "heads": 2}, lambda x, w: fox(x, w, 2)),
    "fox, 8 heads": ({"kind": "fox", "heads": 8}, lambda x, w: fox(x, w, 8)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_fox_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
