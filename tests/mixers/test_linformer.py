"""Linformer against its equation, head by head; shared projections; rows of different lengths; its limits."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.mixers import mixer_config
from seqloom.mixers.fixed.linformer import Linformer, LinformerConfig
from seqloom.models.kinds import model_config

D, H, L, T = 6, 2, 8, 7
SHARES = ("none", "heads", "keys_values", "layers")


def build(**settings: Any) -> Linformer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "linformer", "heads": H, "k": 3, **settings}).build(D, L, causal=False)
    assert isinstance(mixer, Linformer)
    return mixer.double()


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def landmarks(x: np.ndarray, mixture: np.ndarray | None, how: str, head: int, part: slice) -> np.ndarray:
    """The landmarks of one head's keys or values x (n, K)."""
    n, W = len(x), math.ceil(L / 3)
    if how == "linear":
        mixing = mixture[head % len(mixture)]
        return np.array([sum(row[t] * x[t] for t in range(n)) for row in mixing])
    stretches = [x[a : a + W] for a in range(0, n, W)]
    if how == "conv":
        return np.array(
            [sum(tap[part] * row for tap, row in zip(mixture, stretch, strict=False)) for stretch in stretches]
        )
    return np.array([stretch.mean(0) if how == "mean" else stretch.max(0) for stretch in stretches])


def as_written(mixer: Linformer, x: np.ndarray, how: str) -> np.ndarray:
    """The equation for one row (n, D)."""
    w_q, w_k, w_v, w_out = (w.weight.detach().numpy().T for w in (mixer.w_q, mixer.w_k, mixer.w_v, mixer.w_out))
    both = mixer.mixtures
    e, f = (None, None) if both is None else (both.keys.detach().numpy(), both.for_values.detach().numpy())
    y, K = np.zeros_like(x), D // H
    for h in range(H):
        part = slice(h * K, (h + 1) * K)
        k = landmarks((x @ w_k)[:, part], e, how, h, part)
        v = landmarks((x @ w_v)[:, part], f, how, h, part)
        for i in range(len(x)):
            weights = np.exp([(x[i] @ w_q)[part] @ row / math.sqrt(K) for row in k])
            y[i, part] = weights / weights.sum() @ v
    return y @ w_out


@pytest.mark.parametrize("how", ["linear", "mean", "max", "conv"])
@pytest.mark.parametrize("share", SHARES)
def test_linformer_is_the_equation_of_the_kept_tokens(share: str, how: str) -> None:
    mixer, x = build(share=share, projection=how), draw(3, T, D)
    keep = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0, 0]]).bool()
    y, whole = mixer(x, keep).detach(), mixer(x).detach()
    for row, kept, result in zip(x, keep, y, strict=True):
        np.testing.assert_allclose(result[kept], as_written(mixer, row[kept].numpy(), how), rtol=0, atol=1e-12)
    np.testing.assert_allclose(whole[1], as_written(mixer, x[1].numpy(), how), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("share", "matrices"), [("none", 2 * H), ("heads", 2), ("keys_values", 1), ("layers", 1)])
def test_sharing_layers_have_fewer_parameters(share: str, matrices: int) -> None:
    assert build(share=share).cost(T).params == 4 * D * D + matrices * 3 * L


def encoder(**mixer: Any) -> Any:
    settings = {"kind": "encoder", "vocab": 9, "dim": D, "depth": 4, "context": L, "ffn": 8}
    return model_config({**settings, "mixer": {"kind": "linformer", "heads": H, **mixer}})


def test_all_layers_have_one_mixture() -> None:
    model = encoder(k=3).build()
    assert len({id(layer.mixer.mixtures) for layer in model.layers}) == 1
    assert sum("keys" in name for name, _ in model.named_parameters()) == 1


def test_landmarks_change_with_depth_by_equal_factors() -> None:
    model = encoder(k=8, last_k=1, share="keys_values").build()
    counts = [layer.mixer.landmarks for layer in model.layers]
    assert counts == [8, 4, 2, 1]
    assert {a / b for a, b in pairwise(counts)} == {2}
    assert [layer.mixer.mixtures.keys.shape[1] for layer in model.layers] == counts


def test_as_many_landmarks_as_tokens_are_attention() -> None:
    mixer = build(k=L, share="keys_values")
    attention = mixer_config({"kind": "attention", "heads": H}).build(D, None, causal=False).double()
    with torch.no_grad():
        mixer.mixtures.keys.copy_(torch.eye(L)[None])
        attention.w_qkv.weight.copy_(torch.cat([mixer.w_q.weight, mixer.w_k.weight, mixer.w_v.weight]))
        attention.w_out.weight.copy_(mixer.w_out.weight)
    x = draw(2, L, D)
    torch.testing.assert_close(mixer(x), attention(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "context", "words"),
    [
        ({"k": 9}, 8, "9 landmarks of 8 tokens: choose a k of at most the context"),
        ({"k": 3}, None, "linformer needs a context of 1 or more"),
        ({"heads": 4, "k": 3}, 8, "dim 6 is not divisible by heads 4"),
        ({"k": 3, "last_k": 9, "share": "heads"}, 8, "9 landmarks of 8 tokens"),
    ],
)
def test_arguments_of_linformer_that_do_not_fit(settings: dict[str, Any], context: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LinformerConfig(**{"heads": H, **settings}).build(D, context, causal=False, layer=1, depth=2)


def test_layers_of_different_sizes_share_nothing() -> None:
    with pytest.raises(ValueError, match="choose share: keys_values"):
        LinformerConfig(k=8, last_k=2)
    assert LinformerConfig(k=8, last_k=2, projection="mean").distinct(4) == 4


def test_a_text_beyond_the_context_and_a_decoder() -> None:
    with pytest.raises(ValueError, match="linformer mixes at most 8 tokens, not 9: build it with a larger context"):
        build()(draw(1, 9, D))
    with pytest.raises(ValueError, match="so a decoder cannot use it; the nearest kind that has one is linear"):
        LinformerConfig().build(D, L)


@pytest.mark.parametrize("length", [24, 17])
@pytest.mark.parametrize("share", ["heads", "keys_values"])
def test_linformer_is_lucidrains(share: str, length: int) -> None:
    """Theirs shares a mixture by keys and values only together with W_k and W_v: there ours gets them equal."""
    D, H, T, N = 8, 2, 24, 3
    linformer = pytest.importorskip("linformer")
    torch.manual_seed(0)
    both = share == "keys_values"
    theirs = linformer.LinformerSelfAttention(D, T, k=N, heads=H, share_kv=both).double()
    ours: Any = mixer_config({"kind": "linformer", "heads": H, "k": N, "share": share}).build(D, T, causal=False)
    ours = ours.double()
    nn.init.zeros_(theirs.to_out.bias)
    with torch.no_grad():
        values = (theirs.to_k, theirs.proj_k) if both else (theirs.to_v, theirs.proj_v)
        pairs = (ours.w_q, theirs.to_q), (ours.w_k, theirs.to_k), (ours.w_v, values[0]), (ours.w_out, theirs.to_out)
        for one, other in pairs:
            one.weight.copy_(other.weight)
        ours.mixtures.keys.copy_(theirs.proj_k.T[None])
        ours.mixtures.for_values.copy_(values[1].T[None])
    x, dy = draw(2, length, D), draw(2, length, D, seed=2)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    y, expected = ours(inputs[0]), theirs(inputs[1])
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    (y * dy).sum().backward()
    (expected * dy).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours.w_q.weight.grad, theirs.to_q.weight.grad, rtol=0, atol=1e-12)
    if not both:
        torch.testing.assert_close(ours.mixtures.keys.grad[0], theirs.proj_k.grad.T, rtol=0, atol=1e-12)
