"""Retention against its quadratic form in plain numpy; its three forms; what is fixed; what is true of it."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.linear.retention import Retention
from seqloom.ops.backends import use
from seqloom.ops.linear_decay import OP, chunked
from seqloom.ops.op import Backend
from tests.mixers.equation import PROJECTIONS, Case, Recurrence, check_equation, check_without_guards
from tests.mixers.recurrences.guards import GUARDS
from tests.mixers.recurrences.retention import retention

D = 12


def build(heads: int = 3, eps: float = 1e-6) -> Retention:
    mixer = mixer_config({"kind": "retention", "heads": heads, "eps": eps}).build(D, None).double()
    assert isinstance(mixer, Retention)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def quadratic(mixer: Retention, x: np.ndarray, normalised: bool = False) -> np.ndarray:
    """((Q e^{ιtθ})(K e^{-ιtθ})ᵀ/√K ∘ γ^{t-u}) V, pair by pair in complex numbers, for one row (T, D).

    With `normalised`, the paper's further normalisations: of the rows of the decays, and of the scores.
    """
    w_q, w_k, w_v, w_g, w_o = (p.detach().numpy().T for p in mixer.parameters())
    q, k, v, gate = x @ w_q, x @ w_k, x @ w_v, x @ w_g
    T, width = len(x), D // mixer.heads
    theta = 10000.0 ** (-2 * np.arange(width // 2) / width)
    heads = []
    for h in range(mixer.heads):
        gamma, half = 1 - 2.0 ** (-5 - h), h * width + width // 2
        first, second = slice(h * width, half), slice(half, (h + 1) * width)
        scores = np.zeros((T, T))
        for t in range(T):
            for u in range(t + 1):
                query = (q[t, first] + 1j * q[t, second]) * np.exp(1j * t * theta)
                key = np.conj((k[u, first] + 1j * k[u, second]) * np.exp(1j * u * theta))
                fade = gamma ** (t - u)
                if normalised:
                    fade /= np.sqrt(sum(gamma**n for n in range(t + 1)))
                scores[t, u] = (query * key).sum().real / np.sqrt(width) * fade
        if normalised:
            scores /= np.maximum(np.abs(scores.sum(1, keepdims=True)), 1)
        y = scores @ v[:, 2 * h * width : 2 * (h + 1) * width]
        heads.append((y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + mixer.eps))
    return (gate / (1 + np.exp(-gate)) * np.concatenate(heads, 1)) @ w_o


@pytest.mark.parametrize("heads", [1, 3, 6])
@pytest.mark.parametrize("T", [1, 5, 30])
def test_the_quadratic_form(heads: int, T: int) -> None:
    mixer, x = build(heads), draw(2, T, D)
    with torch.no_grad():
        y = mixer(x)
    for row in range(2):
        np.testing.assert_allclose(y[row].numpy(), quadratic(mixer, x[row].numpy()), rtol=0, atol=1e-10)


def test_the_papers_normalisations_change_nothing_without_eps() -> None:
    mixer, x = build(eps=1e-30), draw(20, D).numpy()
    np.testing.assert_allclose(quadratic(mixer, x, normalised=True), quadratic(mixer, x), rtol=0, atol=1e-10)


def forms(mixer: Retention, x: Tensor) -> dict[str, Tensor]:
    result = {}
    for name in ("reference", "chunked"):
        with use(linear_decay=name):
            result[name] = mixer(x)
    state, steps = mixer.start(len(x)), []
    for position in range(x.shape[1]):
        y, state = mixer.step(x[:, position], state)
        steps.append(y)
    return result | {"recurrent": torch.stack(steps, 1)}


@torch.no_grad()
@pytest.mark.parametrize("chunk", [1, 2, 7, 64, 100])
@pytest.mark.parametrize("T", [1, 13, 65])
def test_chunkwise_and_recurrent_are_one(chunk: int, T: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At chunk sizes that do not divide the length, too."""
    monkeypatch.setitem(OP.backends, "chunked", Backend(partial(chunked.decay, chunk=chunk)))
    result = forms(build(), draw(2, T, D))
    for name, y in result.items():
        assert float((y - result["reference"]).abs().max()) < 1e-10, name


@torch.no_grad()
def test_the_forms_agree_at_large_positions() -> None:
    """3,001 tokens, past the length at which γ^-t overflows, and continued with positions per row."""
    mixer, x = build(), draw(1, 3001, D)
    expected = mixer(x)
    first, state = mixer.extend(x[:, :1700], mixer.start(1))
    second, state = mixer.extend(x[:, 1700:2990], state)
    tokens = []
    for position in range(2990, 3001):
        y, state = mixer.step(x[:, position], state, reuse=True)
        tokens.append(y)
    actual = torch.cat([first, second, torch.stack(tokens, 1)], 1)
    assert float((actual - expected).abs().max()) < 1e-10


def test_gammas_are_the_papers_and_stay_exact_in_every_number_type() -> None:
    expected = [31 / 32, 63 / 64, 127 / 128, 255 / 256, 511 / 512, 1023 / 1024]
    mixer = build(6)
    copies = (mixer, copy.deepcopy(mixer).bfloat16(), copy.deepcopy(mixer).bfloat16().float(), mixer.half().double())
    for each in (*copies, pickle.loads(pickle.dumps(mixer))):
        assert each.log_decay.exp().tolist() == pytest.approx(expected, rel=1e-15)
        assert each.theta.tolist() == [1.0]
    assert set(mixer.state_dict()) == {f"w_{name}.weight" for name in "qkvgo"}
    mixer.reset(0.02)
    assert mixer.log_decay.exp().tolist() == pytest.approx(expected, rel=1e-15)


def test_a_mixer_made_on_no_device_has_its_constants_when_it_gets_one() -> None:
    with torch.device("meta"):
        mixer = Retention(D, 3, 1e-6)
    mixer = mixer.to_empty(device="cpu")
    assert mixer.log_decay.exp().tolist() == pytest.approx([31 / 32, 63 / 64, 127 / 128], rel=1e-15)
    assert mixer.theta.tolist() == pytest.approx([1.0, 0.01])


@torch.no_grad()
def test_only_distances_matter() -> None:
    """A text that begins at position 1,000 gives the outputs of one that begins at 0; one with a gap does not."""
    mixer, x = build(), draw(2, 40, D)
    later = {**mixer.start(2), "length": torch.tensor([1000, 7])}
    torch.testing.assert_close(mixer.extend(x, later)[0], mixer(x), rtol=0, atol=1e-10)
    _, state = mixer.extend(x[:, :20], mixer.start(2))
    y, _ = mixer.extend(x[:, 20:], {**state, "length": state["length"] + 3})
    assert float((y - mixer(x)[:, 20:]).abs().max()) > 1e-3


@torch.no_grad()
def test_the_size_of_queries_keys_and_values_does_not_matter() -> None:
    mixer, x = build(eps=1e-20), draw(1, 30, D)
    expected = mixer(x)
    for weight, by in ((mixer.w_q.weight, 7.0), (mixer.w_k.weight, 0.3), (mixer.w_v.weight, 100.0)):
        weight *= by
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_each_head_forgets_at_its_own_pace() -> None:
    mixer = build(3)
    decay, *scores = mixer.plots(draw(1, 50, D))
    gammas = 1 - 2.0 ** -torch.arange(5, 8).double()
    torch.testing.assert_close(decay.values, gammas ** torch.arange(50)[:, None], rtol=1e-12, atol=0)
    assert decay.axes == ("lag", "head")
    assert len(scores) == 3


@torch.no_grad()
def test_the_scores_shown_are_what_it_reads_with() -> None:
    mixer, x = build(), draw(1, 9, D)
    values = mixer.w_v(x)[0].unflatten(-1, (3, -1)).transpose(0, 1)
    y = torch.stack([view.values for view in mixer.plots(x)[1:]]) @ values
    normed = torch.nn.functional.layer_norm(y, (8,), eps=mixer.eps).transpose(0, 1).flatten(1)
    expected = mixer.w_o(torch.nn.functional.silu(mixer.w_g(x[0])) * normed)
    torch.testing.assert_close(mixer(x)[0], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [4, 5, 12])
def test_heads_of_no_even_width_are_errors(heads: int) -> None:
    with pytest.raises(ValueError, match=f"dim 12 does not give {heads} heads of even width"):
        build(heads)


def retention_of(heads: int) -> Recurrence:
    return lambda x, w: retention(x, w, heads, **GUARDS["retention"])


LETTERS = {**PROJECTIONS, "w_g.weight": "w_g", "w_o.weight": "w_out"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "retention, 1 head": ({"kind": "retention", "heads": 1}, retention_of(1)),
    "retention, 2 heads": ({"kind": "retention", "heads": 2}, retention_of(2)),
    "retention, 4 heads": ({"kind": "retention", "heads": 4}, retention_of(4)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_retention_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.parametrize("case", EQUATIONS)
def test_retention_is_nearly_the_paper_without_its_guard(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_without_guards(*EQUATIONS[case], LETTERS, monkeypatch)
