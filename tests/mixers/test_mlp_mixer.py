"""MLP-Mixer against its sums, causal and bidirectional; weights above the diagonal are never read."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.fixed.mlp_mixer import TokenMLP

D, L, T = 3, 6, 5


def build(causal: bool, **settings: Any) -> TokenMLP:
    mixer = mixer_config({"kind": "mlp_mixer", **settings}).build(D, L, causal).double()
    assert isinstance(mixer, TokenMLP)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return mixer


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def gelu(x: float) -> float:
    return x / 2 * (1 + math.erf(x / math.sqrt(2)))


def as_written(mixer: TokenMLP, x: np.ndarray, expand: int | None) -> np.ndarray:
    """The sums for one row (n, D); `expand` units per position of the causal form, None for the bidirectional one."""
    w_1, b_1, w_2, b_2 = (each.detach().numpy() for each in (mixer.w_1, mixer.b_1, mixer.w_2, mixer.b_2))
    n, S = len(x), len(b_1) if expand is None else len(x) * expand
    y = np.zeros_like(x)
    for c in range(D):
        h = np.zeros(S)
        for s in range(S):
            read = range(n if expand is None else s // expand + 1)
            h[s] = gelu(sum(w_1[s, j] * x[j, c] for j in read) + b_1[s])
        for t in range(n):
            units = range(S if expand is None else (t + 1) * expand)
            y[t, c] = sum(w_2[t, s] * h[s] for s in units) + b_2[t]
    return y


@pytest.mark.parametrize("expand", [1, 3])
def test_the_causal_form_is_the_sums(expand: int) -> None:
    mixer, x = build(True, expand=expand), draw(2, T, D)
    expected = np.stack([as_written(mixer, row.numpy(), expand) for row in x])
    np.testing.assert_allclose(mixer(x).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", [{}, {"expand": 2}, {"hidden": 4}])
def test_the_bidirectional_form_is_the_sums_over_kept_tokens(settings: dict[str, Any]) -> None:
    mixer, x = build(False, **settings), draw(2, T, D)
    keep = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1]]).bool()
    for row, kept, y in zip(x, keep, mixer(x, keep).detach(), strict=True):
        np.testing.assert_allclose(y[kept], as_written(mixer, row[kept].numpy(), None), rtol=0, atol=1e-12)


def test_weights_above_the_triangles_are_not_read() -> None:
    mixer, x = build(True, expand=2), draw(2, L, D)
    expected = mixer(x)
    with torch.no_grad():
        unit = torch.arange(2 * L) // 2
        position = torch.arange(L)
        mixer.w_1[position > unit[:, None]] = torch.nan
        mixer.w_2[unit > position[:, None]] = torch.nan
    assert torch.equal(mixer(x), expected)


def test_one_triangle_alone_leaks() -> None:
    """With the whole first layer, an output reads a later input by way of a unit of its own position."""
    mixer, x = build(False), draw(1, L, D)
    with torch.no_grad():
        mixer.w_2.tril_()
    later = x.clone()
    later[:, -1] += 1
    assert (mixer(later) - mixer(x))[:, 0].abs().max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "context", "words"),
    [
        ({}, None, "mlp_mixer needs a context of 1 or more"),
        ({"hidden": 4}, 6, "set expand, not hidden"),
    ],
)
def test_arguments_of_mlp_mixer_that_do_not_fit(settings: dict[str, Any], context: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config({"kind": "mlp_mixer", **settings}).build(D, context)


@pytest.mark.parametrize("causal", [True, False])
def test_a_text_beyond_the_context(causal: bool) -> None:
    with pytest.raises(ValueError, match="mlp_mixer has weights for 6 positions, not for 7"):
        build(causal)(draw(1, L + 1, D))
