"""Additive attention against Bahdanau's scores, pair by pair, in pieces and over blocks of queries."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.attention.additive import AdditiveHeads
from seqloom.ops.attention.additive import additive

D, H, T = 6, 2, 7


def build(context: int | None, causal: bool, heads: int = H) -> AdditiveHeads:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "additive", "heads": heads}).build(D, context, causal).double()
    assert isinstance(mixer, AdditiveHeads)
    return mixer


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def as_written(mixer: AdditiveHeads, x: np.ndarray, causal: bool, context: int | None) -> np.ndarray:
    """The equation for one row (n, D)."""
    w_q, w_k, w_v, w_out = (w.weight.detach().numpy().T for w in (mixer.w_q, mixer.w_k, mixer.w_v, mixer.w_out))
    w, K, y = mixer.w.detach().numpy(), mixer.K, np.zeros_like(x)
    for h in range(mixer.heads):
        part = slice(h * K, (h + 1) * K)
        for i in range(len(x)):
            near = [j for j in range(i + 1 if causal else len(x)) if context is None or abs(i - j) < context]
            scores = [
                sum(w[h, c] * math.tanh((x[i] @ w_q)[part][c] + (x[j] @ w_k)[part][c]) for c in range(K)) for j in near
            ]
            a = np.exp(scores)
            y[i, part] = a / a.sum() @ (x[near] @ w_v)[:, part]
    return y @ w_out


@pytest.mark.parametrize("context", [None, 3])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [1, 2])
def test_additive_is_the_equation_of_the_kept_tokens(heads: int, causal: bool, context: int | None) -> None:
    mixer, x = build(context, causal, heads), draw(2, T, D)
    keep = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 1, 0]]).bool()
    for row, kept, y in zip(x, keep, mixer(x, keep).detach(), strict=True):
        np.testing.assert_allclose(y[kept], as_written(mixer, row[kept].numpy(), causal, context), rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [None, 3])
def test_blocks_of_queries_change_nothing(monkeypatch: pytest.MonkeyPatch, causal: bool, window: int | None) -> None:
    q, k, v = (draw(2, H, T, 4).requires_grad_() for _ in range(3))
    w = draw(H, 4).requires_grad_()

    def run() -> tuple[Tensor, ...]:
        y = additive(q, k, v, w, causal=causal, window=window)
        return y, *torch.autograd.grad((y * draw(*y.shape)).sum(), (q, k, v, w))

    expected = run()
    monkeypatch.setattr("seqloom.ops.attention.additive.NUMBERS", 2 * H * T * 4 * 2)
    torch.testing.assert_close(run(), expected, rtol=0, atol=1e-12)


def test_a_query_without_a_key_gives_0() -> None:
    q, k, v = draw(1, H, 2, 4), draw(1, H, 3, 4), draw(1, H, 3, 4)
    empty = torch.full((1, 3), -1)
    assert not additive(q, k, v, draw(H, 4), causal=False, key_time=empty).any()


def test_bahdanaus_own_is_one_head_without_values() -> None:
    """α_ij = softmax_j(v · tanh(W s_i + U h_j)), c_i = Σ_j α_ij h_j."""
    mixer, x = build(None, False, 1), draw(1, T, D)
    with torch.no_grad():
        mixer.w_v.weight.copy_(torch.eye(D))
        mixer.w_out.weight.copy_(torch.eye(D))
    scores = torch.tanh(mixer.w_q(x)[:, :, None] + mixer.w_k(x)[:, None]) @ mixer.w[0]
    torch.testing.assert_close(mixer(x), scores.softmax(-1) @ x, rtol=0, atol=1e-12)


def test_heads_of_additive_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="dim 6 is not divisible by heads 4: choose heads that divide dim"):
        build(None, True, 4)
