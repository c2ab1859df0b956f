"""`deltaproduct` and `gated_delta2` with their additions turned off, and what several steps per token can compute."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.delta_steps import delta_steps

DIM, T = 8, 11


def built(**settings: Any) -> Mixer:
    """A mixer with drawn weights, taps and rates included."""
    mixer = mixer_config(settings).build(DIM, 32).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return mixer


def inputs() -> Tensor:
    return torch.randn(2, T, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def everything(mixer: Mixer) -> list[Tensor]:
    """The outputs of a whole sequence, of pieces and tokens, and all gradients, by name."""
    x = inputs().requires_grad_()
    y = mixer(x)
    parameters = dict(sorted(mixer.named_parameters()))
    slopes = torch.autograd.grad(y.square().sum(), [x, *parameters.values()])
    first, state = mixer.extend(x[:, :5], mixer.start(2))
    tokens = [first]
    for t in range(5, T):
        token, state = mixer.step(x[:, t], state)
        tokens.append(token[:, None])
    return [y, torch.cat(tokens, 1), *slopes]


def same(one: Mixer, known: Mixer) -> None:
    """But for rounding: the known mixers form their keys in C, which adds in another order."""
    for found, wanted in zip(everything(one), everything(known), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13 * float(wanted.detach().abs().max()))


@pytest.mark.slow
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize(
    "sizes", [{"heads": 2}, {"heads": 1, "value_heads": 2, "key_width": 4, "value_width": 3}], ids=str
)
def test_one_step_is_the_gated_delta_rule(sizes: dict[str, int], negative: bool) -> None:
    one = built(kind="deltaproduct", steps=1, negative=negative, **sizes)
    known = built(kind="gated_delta", negative=negative, **sizes)
    known.load_state_dict(one.state_dict())
    same(one, known)


def test_one_step_without_decay_and_gate_is_deltanet() -> None:
    widths = {"key_width": DIM // 2, "value_width": DIM // 2}
    one = built(kind="deltaproduct", heads=2, steps=1, negative=False, decay=False, gate=False, **widths)
    known = built(kind="delta", heads=2)
    known.load_state_dict(one.state_dict())
    same(one, known)


def test_equal_gates_of_a_head_are_kda() -> None:
    """b = w = β where the columns of a head in W_b and W_w are those of β."""
    kda, two = built(kind="kda", heads=2), built(kind="gated_delta2", heads=2)
    weights = dict(kda.state_dict())
    weights["w_b.weight"] = weights["w_w.weight"] = weights["w_b.weight"].repeat_interleave(DIM // 2, 0)
    two.load_state_dict(weights)
    x = inputs()
    torch.testing.assert_close(two(x), kda(x), rtol=0, atol=1e-12)
    with torch.no_grad():
        two.get_parameter("w_w.weight")[0, 0] += 0.1
    assert (two(x) - kda(x)).abs().max() > 1e-4


@pytest.mark.parametrize(("chosen", "grows"), [(True, True), (False, False)], ids=["by channel", "by head"])
def test_erasing_by_channel_can_lengthen_a_state(chosen: bool, grows: bool) -> None:
    """Keys (1, 2)/√5 and (2, 1)/√5, of which the first and the second channel erase: 1.247 times in two tokens.

    The product of both matrices is [[0.96, -0.4], [-0.32, 0.8]]; with b = 1 no product of such matrices lengthens.
    """
    pairs, generator = 50, torch.Generator().manual_seed(0)
    k = (torch.tensor([[1.0, 2.0], [2.0, 1.0]], dtype=torch.float64) / 5**0.5).repeat(pairs, 1)[None, None]
    b = torch.eye(2, dtype=torch.float64).repeat(pairs, 1)[None, None] if chosen else torch.ones_like(k)
    before = torch.randn(1, 1, 2, 3, generator=generator, dtype=torch.float64)
    _, after = delta(torch.zeros_like(k), k, torch.zeros(1, 1, 2 * pairs, 3).double(), erase=b * k, state=before)
    growth = float(after.norm() / before.norm())
    assert (1.2**pairs < growth < 1.25**pairs) if grows else growth <= 1.0


@pytest.mark.parametrize(("most", "bound"), [(1.0, (4 / 3) ** 0.5), (2.0, 2**0.5)], ids=["b up to 1", "b up to 2"])
def test_how_much_longer_a_token_can_make_a_state(most: float, bound: float) -> None:
    """The norm of I - kᵀ(b ∘ k), with a = Σ b k² and Σ b²k² ≤ most·a, so σ₁² + σ₂² ≤ 2 - (2 - most) a and σ₁σ₂ = |1-a|.

    It is largest at a = 1/3 for b up to 1, and at a = 1 for b up to 2; both are reached by b = (most, 0).
    """
    generator = torch.Generator().manual_seed(0)
    k = torch.randn(2000, 4, generator=generator, dtype=torch.float64)
    k = k / k.norm(dim=-1, keepdim=True)
    b = most * torch.rand(2000, 4, generator=generator, dtype=torch.float64).round()
    first = (1 / 3 if most == 1 else 1 / 2) ** 0.5
    k[0] = torch.tensor([first, (1 - first**2) ** 0.5, 0, 0], dtype=torch.float64)
    b[0] = torch.tensor([most, 0, 0, 0], dtype=torch.float64)
    keys, strengths = k[:, None, None], b[:, None, None]  # one token for each state
    nothing, state = torch.zeros_like(keys), torch.eye(4, dtype=torch.float64).expand(2000, 1, 4, 4)
    _, after = delta(nothing, keys, nothing, erase=strengths * keys, state=state)
    norms = torch.linalg.matrix_norm(after[:, 0], 2)
    assert float(norms[0]) == pytest.approx(bound)
    assert float(norms.max()) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_n_reflections_make_a_cycle_of_n_plus_1_things(steps: int) -> None:
    """β = 2 and keys (e_i - e_j)/√2 swap two coordinates: a token cycles the state, and n + 1 restore it."""
    K = 5
    e = torch.eye(K, dtype=torch.float64)
    k = torch.stack([(e[j] - e[j + 1]) / 2**0.5 for j in range(steps)])
    state = torch.randn(1, 1, K, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tokens = steps + 1
    k = k.expand(1, 1, tokens, steps, K)
    nothing, twos = torch.zeros(1, 1, tokens, steps, 2).double(), torch.full((1, 1, tokens, steps), 2.0).double()
    q = torch.zeros(1, 1, tokens, K).double()
    _, after = delta_steps(q[:, :, :1], k[:, :, :1], nothing[:, :, :1], twos[:, :, :1], state=state)
    order = [*range(1, steps + 1), 0, *range(steps + 1, K)]
    torch.testing.assert_close(after[0, 0], state[0, 0, order], rtol=0, atol=1e-12)
    _, again = delta_steps(q, k, nothing, twos, state=state)
    torch.testing.assert_close(again, state, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "deltaproduct", "steps": 0}, "steps"),
        ({"kind": "deltaproduct", "heads": 8}, "3/4 of dim 8 is too narrow for 8 heads"),
        ({"kind": "deltaproduct", "heads": 2, "value_heads": 3}, "3 value heads are no multiple of 2 heads"),
        ({"kind": "gated_delta2", "heads": 3}, "dim 8 is not divisible by heads 3"),
    ],
)
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config(settings).build(DIM, 32)
