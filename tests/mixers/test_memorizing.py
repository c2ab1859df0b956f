"""Memorizing attention: its equation in plain loops, its gradients, equality with plain attention, and its limits."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.mixer import Mixer
from seqloom.ops.backends import use

DIM = 8


def built(window: int = 3, memory: int = 5, neighbors: int = 2, heads: int = 2, seed: int = 0) -> Mixer:
    torch.manual_seed(seed)
    sizes = {"window": window, "memory": memory, "neighbors": neighbors, "heads": heads}
    mixer = seqloom.mixer("memorizing", dim=DIM, **sizes).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(T: int, seed: int = 1) -> Tensor:
    return torch.randn(2, T, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def written_out(mixer: Any, x: np.ndarray) -> np.ndarray:
    """The equation of one row (T, D), head by head and token by token."""
    K, H, T = mixer.K, mixer.heads, len(x)
    W, M, n = mixer.window, mixer.max_slots - mixer.window, mixer.old.count
    weights = {name: p.detach().numpy() for name, p in mixer.named_parameters()}
    q, k, v = np.split(x @ weights["w_qkv.weight"].T, 3, 1)
    y = np.zeros_like(x)

    def normed(u: np.ndarray, gain: np.ndarray) -> np.ndarray:
        return u / np.sqrt((u**2).mean(-1, keepdims=True) + 1e-6) * gain

    def read(query: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        e = np.exp(keys @ query / math.sqrt(K))
        return e @ values / e.sum()

    for h in range(H):
        own = slice(h * K, (h + 1) * K)
        queries, keys = normed(q[:, own], weights["norm_q.weight"]), normed(k[:, own], weights["norm_k.weight"])
        values, share = v[:, own], 1 / (1 + math.exp(-weights["gate"][h]))
        for i in range(T):
            near = read(queries[i], keys[max(0, i - W + 1) : i + 1], values[max(0, i - W + 1) : i + 1])
            old = np.arange(max(0, i - W - M + 1), max(0, i - W + 1))
            y[i, own] = near
            if len(old):
                best = old[np.argsort(-(keys[old] @ queries[i]))[:n]]
                y[i, own] = share * read(queries[i], keys[best], values[best]) + (1 - share) * near
    return y @ weights["w_out.weight"].T


@pytest.mark.sample(5)
@pytest.mark.parametrize("T", [1, 3, 4, 20])
@pytest.mark.parametrize("sizes", [(3, 5, 2), (1, 1, 1), (2, 30, 4), (4, 2, 9)])
@pytest.mark.parametrize("backend", ["formed", "reference"])
def test_outputs_of_memorizing_are_its_equation(T: int, sizes: tuple[int, int, int], backend: str) -> None:
    mixer, x = built(*sizes), draw(T)
    expected = np.stack([written_out(mixer, row) for row in x.numpy()])
    with use(recall=backend):
        np.testing.assert_allclose(mixer(x).detach().numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cuts", [(7, 13), (1, 1, 18), (4, 4, 4, 8)])
def test_a_ring_that_has_wrapped(cuts: tuple[int, ...]) -> None:
    """Longer than window and memory together: pieces and steps give the whole."""
    mixer, x = built(), draw(20)
    with torch.no_grad():
        state, parts = mixer.start(2), []
        for piece in x.split(cuts, 1):
            y, state = mixer.extend(piece, state)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=0, atol=1e-12)
        state, steps = mixer.start(2), []
        for token in x.unbind(1):
            y, state = mixer.step(token, state, reuse=True)
            steps.append(y)
        torch.testing.assert_close(torch.stack(steps, 1), mixer(x), rtol=0, atol=1e-12)


def test_no_gradient_into_the_memory() -> None:
    mixer, x = built(window=2, memory=10, neighbors=10), draw(9).requires_grad_()
    (slope,) = torch.autograd.grad(mixer(x)[:, 8].sum(), x)
    assert slope[:, 7:].abs().sum() > 0
    assert not slope[:, :7].any(), "an old token has a gradient"
    changed = x.detach().clone()
    changed[:, 2] += 1
    assert float((mixer(changed) - mixer(x)).detach()[:, 8].abs().max()) > 1e-6, "what is old is read, though"


def test_with_a_closed_gate_it_is_attention_with_its_weights() -> None:
    """So a run of plain attention can go on with a memory."""
    torch.manual_seed(0)
    plain = seqloom.mixer("attention", dim=DIM, context=3, heads=2, qk_norm="heads").double()
    mixer = built()
    missing, foreign = mixer.load_state_dict(plain.state_dict(), strict=False)
    assert (missing, foreign) == (["gate"], [])
    with torch.no_grad():
        mixer.gate.fill_(-60.0)
        torch.testing.assert_close(mixer(draw(12)), plain(draw(12)), rtol=0, atol=1e-12)


def test_a_memory_can_be_enlarged_later() -> None:
    """No weight depends on its size; what a token reads changes where it has more than the small one held."""
    small, large = built(memory=2), built(memory=50, neighbors=4)
    large.load_state_dict(small.state_dict())
    x = draw(14)
    with torch.no_grad():
        torch.testing.assert_close(small(x)[:, :5], large(x)[:, :5], rtol=0, atol=1e-12)
        assert float((small(x) - large(x))[:, 12].abs().max()) > 1e-6


@pytest.mark.parametrize("T", [2, 3, 4, 9, 30])
def test_the_number_of_old_keys(T: int) -> None:
    mixer: Any = built(neighbors=3)
    by_hand = [max(0, min(i - 3 + 1, 5)) for i in range(T)]
    assert mixer.old.terms(T) == (sum(by_hand), sum(min(each, 3) for each in by_hand))


def test_seed_002_normalizes_keys_and_values() -> None:
    """As the paper says, a value is as long as it is, and a key of any length is read alike."""
    mixer, x = built(), draw(9)
    longer = built()
    longer.load_state_dict(mixer.state_dict())
    with torch.no_grad():
        longer.w_qkv.weight[DIM : 2 * DIM] *= 50  # keys
        torch.testing.assert_close(longer(x), mixer(x), rtol=0, atol=1e-4)
        longer.w_qkv.weight[2 * DIM :] *= 2  # values
        torch.testing.assert_close(longer(x), 2 * mixer(x), rtol=0, atol=2e-4)
