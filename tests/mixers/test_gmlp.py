"""gMLP against its equation in every form, its initial values, and `me` in its gate."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.fixed.gmlp import SpatialGate

D, L, T, A = 4, 6, 5, 3
FORMS = [{}, {"attention": A}, {"toeplitz": True}, {"toeplitz": True, "attention": A}]


def build(causal: bool, **settings: Any) -> SpatialGate:
    mixer = mixer_config({"kind": "gmlp", "expand": 2, **settings}).build(D, L, causal).double()
    assert isinstance(mixer, SpatialGate)
    return mixer


def drawn(causal: bool, **settings: Any) -> SpatialGate:
    mixer, generator = build(causal, **settings), torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return mixer


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def as_written(mixer: SpatialGate, x: np.ndarray, causal: bool) -> np.ndarray:
    """The equation for one row (n, D)."""
    given = {name: parameter.detach().numpy() for name, parameter in mixer.named_parameters()}
    z = x @ given["w_in.weight"].T + given["w_in.bias"]
    z = z / 2 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    u, v = np.split(z, 2, 1)
    v = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5)
    v = v * given["norm.weight"] + given["norm.bias"]
    w, b = given["w"], given["b"]
    s = np.zeros_like(v)
    for t in range(len(x)):
        for j in range(t + 1 if causal else len(x)):
            lag = t - j + (0 if causal else L - 1)
            s[t] += (w[lag] if w.ndim == 1 else w[t, j]) * v[j]
        s[t] += b[0] if len(b) == 1 else b[t]
        if "w_a.weight" in given:
            q, k, values = np.split(x @ given["w_qkv.weight"].T, 3, 1)
            seen = slice(t + 1 if causal else len(x))
            a = np.exp(k[seen] @ q[t] / math.sqrt(A))
            s[t] += a / a.sum() @ values[seen] @ given["w_a.weight"].T
    return (u * s) @ given["w_out.weight"].T + given["w_out.bias"]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("settings", FORMS, ids=str)
def test_gmlp_is_the_equation_of_the_kept_tokens(settings: dict[str, Any], causal: bool) -> None:
    mixer, x = drawn(causal, **settings), draw(2, T, D)
    keep = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1]]).bool()
    for row, kept, y in zip(x, keep, mixer(x, keep).detach(), strict=True):
        np.testing.assert_allclose(y[kept], as_written(mixer, row[kept].numpy(), causal), rtol=0, atol=1e-11)
    expected = np.stack([as_written(mixer, row.numpy(), causal) for row in x])
    np.testing.assert_allclose(mixer(x).detach(), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("toeplitz", [False, True])
def test_it_is_initialized_as_a_network_of_each_token_alone(toeplitz: bool) -> None:
    mixer, x = build(True, toeplitz=toeplitz), draw(1, L, D)
    mixer.reset(0.02)
    assert mixer.w.abs().max() <= 1e-3 / L
    assert (mixer.b == 1).all()
    u, _ = mixer.halves(x)
    alone = mixer.w_out(u)
    assert (mixer(x) - alone).abs().max() < 0.01 * alone.abs().max()


def test_the_toeplitz_gate_is_me() -> None:
    mixer, x = drawn(True, toeplitz=True), draw(2, 2 * L, D)
    me = mixer_config({"kind": "me"}).build(D, L).double()
    with torch.no_grad():
        me.w_ext.copy_(mixer.w)
    u, v = mixer.halves(x)
    torch.testing.assert_close(mixer(x), mixer.w_out(u * (me(v) + mixer.b)), rtol=0, atol=1e-12)
    assert mixer.traits.longest is None


@pytest.mark.parametrize("attention", [0, A])
def test_weights_above_the_triangle_are_not_read(attention: int) -> None:
    mixer, x = drawn(True, attention=attention), draw(2, L, D)
    expected = mixer(x)
    with torch.no_grad():
        mixer.w[torch.ones(L, L).triu(1).bool()] = torch.nan
    assert torch.equal(mixer(x), expected)


@pytest.mark.parametrize(
    ("settings", "dim", "context", "words"),
    [
        ({}, 4, None, "gmlp needs a context of 1 or more"),
        ({"expand": 3}, 5, 6, "expand 3 of dim 5 is 15 channels, which have no halves"),
    ],
)
@pytest.mark.parametrize("causal", [True, False])
def test_arguments_of_gmlp_that_do_not_fit(
    settings: dict[str, Any], dim: int, context: int | None, words: str, causal: bool
) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config({"kind": "gmlp", **settings}).build(dim, context, causal)


@pytest.mark.parametrize("settings", [{}, {"toeplitz": True, "attention": A}], ids=str)
@pytest.mark.parametrize("causal", [True, False])
def test_a_text_beyond_the_context(causal: bool, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="gmlp has weights for 6 positions, not for 7"):
        build(causal, **settings)(draw(1, L + 1, D))
