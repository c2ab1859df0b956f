"""HGRN2's later layers, whose forget gates have a lower bound from a shared table; gates at the ends of their range.

HGRN2 as a recurrence, number by number.

    g_t = β + (1 - β) σ(x_t W_f),   q_t = silu(x_t W_q),   i_t = x_t W_i
    S_t = diag(g_t) S_{t-1} + (1 - g_t)ᵀ i_t,   o_t = q_t S_t / √K                                       per head
    out = (o / √(mean of o² + 1e-5) ∘ gain) W_o,   over all channels
    β^l = Σ_{j≤l} softmax_j(Γ) - softmax_0(Γ)                                                           of layer l

Source: Qin et al., arXiv:2404.07904, section 3; β of Qin et al., HGRN, arXiv:2311.04823, section 3.2.
"""

import math

import numpy as np
import pytest
import torch
from torch import nn

import seqloom
from seqloom.core.mixer import Mixer
from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.equation import Case, check_equation, paper_weights
from tests.mixers.recurrences.activations import each, silu
from tests.mixers.recurrences.arithmetic import Array, Weights, cut, out, projected, sigmoid

D, DEPTH = 8, 4


def built(layer: int, dtype: torch.dtype = torch.float64) -> Mixer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "hgrn2", "heads": 2}).build(D, None, layer=layer, depth=DEPTH).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


@pytest.mark.sample(3)
@pytest.mark.parametrize("layer", range(DEPTH))
@pytest.mark.parametrize("T", [1, 7, 40])
def test_a_layer_is_its_recurrence(layer: int, T: int) -> None:
    mixer, x = built(layer), np.random.default_rng(T).normal(size=(T, D))
    w = paper_weights(mixer, LETTERS)
    expected = hgrn2(x, w, 2, bound(mixer.state_dict()["shared.table"].numpy(), layer))
    with torch.no_grad():
        whole = mixer(torch.from_numpy(x)[None])[0]
        y, state = mixer.extend(torch.from_numpy(x[None, : T // 2]), mixer.start(1))
        parts = [y]
        for token in torch.from_numpy(x[T // 2 :]):
            y, state = mixer.step(token[None], state)
            parts.append(y[:, None])
    np.testing.assert_allclose(whole.numpy(), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(torch.cat(parts, 1)[0].numpy(), expected, rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("T", [1, 2, 6])
def test_a_later_layers_price_is_the_count(T: int) -> None:
    mixer, x = built(2), torch.randn(1, T, D, dtype=torch.float64)
    with backends.use(linear_decay="reference", projection="reference"):
        result = count(lambda: mixer(x))
    price = mixer.cost(T)
    for name in ("mul", "add", "div", "exp", "other"):
        assert getattr(price, name) == getattr(result, name), name


@pytest.mark.slow
def test_the_layers_of_a_model_share_one_table() -> None:
    model = seqloom.decoder("hgrn2", vocab=11, dim=D, depth=3, context=6, heads=2)
    tables = [name for name, parameter in model.named_parameters() if parameter.shape == (3, D)]
    assert tables == ["shared.hgrn2.table"]
    model(torch.randint(11, (2, 5))).square().sum().backward()
    table = model.get_parameter(tables[0])
    assert table.grad is not None
    assert bool(table.grad.any(1).all())
    assert not table.detach().any()


@pytest.mark.parametrize("logit", [-1e4, 1e4])
@pytest.mark.parametrize("row", [-1e3, 0.0, 1e3])
@pytest.mark.parametrize("layer", [0, 1, 3])
def test_gates_and_bounds_of_0_and_of_1(layer: int, row: float, logit: float) -> None:
    """Outputs and gradients are finite."""
    mixer = built(layer, torch.float32)
    with torch.no_grad():
        mixer.get_parameter("shared.table")[layer] = row
        nn.init.constant_(mixer.get_parameter("w_f.weight"), logit)
    x = torch.rand(1, 40, D).requires_grad_()
    y = mixer(x)
    y.square().sum().backward()
    assert bool(y.isfinite().all())
    for parameter in (x, *mixer.parameters()):
        assert parameter.grad is None or bool(parameter.grad.isfinite().all())


@torch.no_grad()
def test_16384_tokens_that_leave_nothing() -> None:
    """Forget gates of 0, and inputs of 1e4: what comes out is of the last token alone."""
    mixer = built(0, torch.float32)
    x = 1e4 * torch.rand(1, 16384, D)
    nn.init.constant_(mixer.get_parameter("w_f.weight"), -1.0)
    y = mixer(x)
    assert bool(y.isfinite().all())
    torch.testing.assert_close(y[:, -1], mixer(x[:, -1:])[:, 0], rtol=1e-4, atol=1e-4)


def test_heads_of_hgrn2_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        mixer_config({"kind": "hgrn2", "heads": 3}).build(D, None)


def bound(table: Array, layer: int) -> Array:
    """β of a layer, from a table (layers, D)."""
    beta = np.zeros(table.shape[1])
    for c in range(table.shape[1]):
        powers = [math.exp(number) for number in table[:, c]]
        beta[c] = sum(power / sum(powers) for power in powers[1 : layer + 1])
    return beta


def hgrn2(x: Array, w: Weights, heads: int, beta: Array) -> Array:
    """x (T, D) -> (T, D)."""
    queries, inputs, logits = each(silu, projected(x, w["w_q"])), projected(x, w["w_i"]), projected(x, w["w_f"])
    y, K = np.zeros_like(x), x.shape[1] // heads
    for h in range(heads):
        q, i, f, low, o = (cut(part, h, heads) for part in (queries, inputs, logits, beta[None], y))
        S = np.zeros((K, K))
        for t in range(len(x)):
            for c in range(K):
                gate = low[0, c] + (1 - low[0, c]) * sigmoid(f[t, c])
                S[c] = gate * S[c] + (1 - gate) * i[t]
            o[t] = q[t] @ S / math.sqrt(K)
    normed = [row / math.sqrt(sum(number**2 for number in row) / len(row) + 1e-5) * w["gain"] for row in y]
    return out(np.stack(normed), w)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in "qfi"},
    **{"w_o.weight": "w_out", "norm.weight": "gain", "shared.table": "table"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "hgrn2": ({"kind": "hgrn2", "heads": 2}, lambda x, w: hgrn2(x, w, 2, np.zeros(D))),
    "hgrn2, 1 head": ({"kind": "hgrn2", "heads": 1}, lambda x, w: hgrn2(x, w, 1, np.zeros(D))),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_hgrn2_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)
