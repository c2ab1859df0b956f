"""The linear Transformer against its quadratic form in plain numpy, and properties that hold for all weights."""

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.layers.feature_maps import Elu
from seqloom.mixers import mixer_config
from seqloom.mixers.linear.linear import LinearAttention
from seqloom.ops.backends import use
from tests.mixers.equation import PROJECTIONS, Case, Recurrence, check_equation, check_without_guards
from tests.mixers.recurrences.guards import GUARDS
from tests.mixers.recurrences.linear import linear

D = 12


def build(heads: int = 3, eps: float = 1e-6) -> LinearAttention:
    mixer = mixer_config({"kind": "linear", "heads": heads, "eps": eps}).build(D, None).double()
    assert isinstance(mixer, LinearAttention)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def feature(a: np.ndarray) -> np.ndarray:
    return np.where(a > 0, a, np.expm1(a)) + 1


def quadratic(mixer: LinearAttention, x: np.ndarray) -> np.ndarray:
    """Σ_j φ(q_i)·φ(k_j) v_j / (Σ_j φ(q_i)·φ(k_j) + eps), with all T² weights, for one row (T, D)."""
    w_q, w_k, w_v, w_out = (p.detach().numpy().T for p in mixer.parameters())
    q, k, v = feature(x @ w_q), feature(x @ w_k), x @ w_v
    width, y = D // mixer.heads, np.zeros_like(x)
    for h in range(mixer.heads):
        part = slice(h * width, (h + 1) * width)
        weights = np.tril(q[:, part] @ k[:, part].T)
        y[:, part] = weights @ v[:, part] / (weights.sum(1, keepdims=True) + mixer.eps)
    return y @ w_out


@pytest.mark.parametrize("heads", [1, 3, 12])
@pytest.mark.parametrize("T", [1, 5, 64, 65, 150])
def test_the_quadratic_form(heads: int, T: int) -> None:
    mixer, x = build(heads), draw(2, T, D)
    with torch.no_grad():
        forms = [mixer(x), mixer.extend(x, mixer.start(2))[0]]
        for backend in ("reference", "chunked"):
            with use(linear_decay=backend):
                forms.append(mixer(x))
    for y in forms:
        for row in range(2):
            np.testing.assert_allclose(y[row].numpy(), quadratic(mixer, x[row].numpy()), rtol=0, atol=1e-10)


def test_the_feature_is_elu_and_one_with_its_gradient() -> None:
    x = torch.tensor([-800.0, -30.0, -1.0, -1e-9, 0.0, 1e-9, 2.0, 800.0]).double().requires_grad_()
    y = Elu(1, 1)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, torch.nn.functional.elu(x) + 1, rtol=0, atol=1e-12)
    torch.testing.assert_close(grad, torch.where(x > 0, 1.0, x.exp()).detach(), rtol=0, atol=1e-12)
    assert float(y[1].detach()) == pytest.approx(np.exp(-30.0), rel=1e-12)


def test_the_order_of_the_past_does_not_matter() -> None:
    mixer, x = build(), draw(1, 9, D)
    order = torch.tensor([4, 2, 7, 0, 1, 3, 6, 5, 8])
    torch.testing.assert_close(mixer(x[:, order])[:, -1], mixer(x)[:, -1], rtol=0, atol=1e-12)


def test_weights_sum_to_one() -> None:
    """With equal values everywhere, every output is that value, but for eps."""
    mixer, x = build(eps=0.0), draw(1, 70, D)
    with torch.no_grad():
        for view in mixer.plots(x):
            assert bool((view.values >= 0).all())
            torch.testing.assert_close(view.values.sum(1), torch.ones(70).double())
            assert torch.equal(view.values, view.values.tril())


def test_the_views_are_what_it_reads_with() -> None:
    mixer, x = build(), draw(1, 7, D)
    with torch.no_grad():
        _, *heads = (view.values for view in mixer.plots(x))
        value = mixer.w_v(x)[0].unflatten(-1, (3, -1))
        y = torch.cat([a @ value[:, h] for h, a in enumerate(heads)], -1)
        torch.testing.assert_close(mixer.w_out(y), mixer(x)[0], rtol=0, atol=1e-12)


def test_a_query_that_matches_nothing_is_held_by_eps() -> None:
    """Features that underflow to 0 give 0, not NaN."""
    mixer = build(heads=1)
    with torch.no_grad():
        mixer.w_q.weight.fill_(-1e4)
    y = mixer(torch.ones(1, 5, D).double())
    assert torch.equal(y, torch.zeros_like(y))


def test_the_state_is_float32_where_the_weights_are_bfloat16() -> None:
    """A sum in bfloat16 stops growing at 256 tokens; this one does not."""
    mixer = build().bfloat16()
    state = mixer.start(1)
    assert state["sum"].dtype == torch.float32
    with torch.no_grad():
        x = draw(1, 1, D).bfloat16().expand(1, 2000, D)
        _, state = mixer.extend(x, state)
        for _ in range(3):
            _, state = mixer.step(x[:, 0], state, reuse=True)
        _, once = mixer.step(x[:, 0], mixer.start(1))
    torch.testing.assert_close(state["sum"], once["sum"] * 2003, rtol=1e-4, atol=1e-4)


def test_heads_of_linear_that_do_not_divide_are_errors() -> None:
    with pytest.raises(ValueError, match="dim 12 is not divisible by heads 5"):
        build(5)


def linear_of(heads: int) -> Recurrence:
    return lambda x, w: linear(x, w, heads, **GUARDS["linear"])


LETTERS = PROJECTIONS
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "linear, 1 head": ({"kind": "linear", "heads": 1}, linear_of(1)),
    "linear, 2 heads": ({"kind": "linear", "heads": 2}, linear_of(2)),
    "linear, 8 heads": ({"kind": "linear", "heads": 8}, linear_of(8)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_linear_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.parametrize("case", EQUATIONS)
def test_linear_is_nearly_the_paper_without_its_guard(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_without_guards(*EQUATIONS[case], LETTERS, monkeypatch)


def hedgehog(heads: int = 3) -> LinearAttention:
    mixer = mixer_config({"kind": "linear", "heads": heads, "features": "hedgehog"}).build(D, None).double()
    assert isinstance(mixer, LinearAttention)
    return mixer


def test_learned_features_begin_with_those_of_the_projections_themselves() -> None:
    mixer, x = hedgehog(), draw(1, 7, D)
    q = mixer.w_q(x).unflatten(-1, (3, 4))[0]  # (T, H, K)
    k = mixer.w_k(x).unflatten(-1, (3, 4))[0]
    v = mixer.w_v(x).unflatten(-1, (3, 4))[0]
    features = [torch.cat([z.softmax(-1), (-z).softmax(-1)], -1) for z in (q, k)]
    weights = torch.einsum("ihf,jhf->hij", *features).tril()
    y = torch.einsum("hij,jhv->ihv", weights / (weights.sum(-1, keepdim=True) + mixer.eps), v)
    torch.testing.assert_close(mixer(x)[0], mixer.w_out(y.flatten(1)), rtol=0, atol=1e-12)


def test_learned_features_stay_as_they_are_when_weights_are_drawn_anew_and_learn() -> None:
    mixer = hedgehog()
    mixer.reset(0.02)
    assert torch.equal(mixer.feature_q.weight, torch.eye(4).double().repeat(3, 1, 1))
    mixer(draw(1, 7, D)).square().sum().backward()
    for feature_map in (mixer.feature_q, mixer.feature_k):
        assert bool(feature_map.weight.grad.abs().sum() > 0)
    assert mixer.start(2)["sum"].shape == (2, 3, 8, 5)
