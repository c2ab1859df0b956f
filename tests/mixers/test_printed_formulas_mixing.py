"""Low-rank and fixed mixing to the letter of seeds 000 and 002, against the papers. docs/errata.md has the list."""

import math

import numpy as np
import pytest
import torch

from seqloom.mixers import mixer_config
from seqloom.mixers.fixed.linformer import Linformer

RNG = np.random.default_rng(11)


def linformer(T: int, D: int, k: int, heads: int = 1) -> Linformer:
    config = mixer_config({"kind": "linformer", "heads": heads, "k": k, "share": "heads"})
    mixer = config.build(D, T, causal=False).double()
    assert isinstance(mixer, Linformer)
    assert mixer.mixtures is not None
    return mixer


def test_002_linformers_mixtures_are_transposed() -> None:
    T, D, k = 7, 4, 3
    printed, keys = RNG.normal(size=(T, k)), RNG.normal(size=(T, D))
    with pytest.raises(ValueError, match="matmul"):
        printed @ keys  # E X W^k, as printed
    mixtures = linformer(T, D, k).mixtures
    assert mixtures.keys.shape == (1, k, T)
    assert (mixtures.keys[0].detach().numpy() @ keys).shape == (k, D)


def test_002_linformers_weights_are_of_tokens_and_landmarks() -> None:
    T, D, k = 7, 4, 3
    q, landmarks = RNG.normal(size=(T, D)), RNG.normal(size=(k, D))
    assert (q @ landmarks.T).shape == (T, k) != (k, D)


def test_002_linformer_divides_by_the_width_of_all_heads() -> None:
    """Printed: √d, where d is the width of the model."""
    T, D, H = 5, 4, 2
    mixer, x = linformer(T, D, T, H), RNG.normal(size=(T, D))
    with torch.no_grad():
        for parameter in (mixer.mixtures.keys, mixer.mixtures.values):
            parameter.copy_(torch.eye(T)[None])
        y = mixer(torch.tensor(x)[None])[0].numpy()
    w_q, w_k, w_v, w_out = (w.weight.detach().numpy().T for w in (mixer.w_q, mixer.w_k, mixer.w_v, mixer.w_out))

    def heads(scale: float) -> np.ndarray:
        parts = []
        for h in range(H):
            part = slice(h * D // H, (h + 1) * D // H)
            a = np.exp((x @ w_q)[:, part] @ (x @ w_k)[:, part].T / scale)
            parts.append(a / a.sum(1, keepdims=True) @ (x @ w_v)[:, part])
        return np.concatenate(parts, 1) @ w_out

    np.testing.assert_allclose(y, heads(math.sqrt(D / H)), rtol=0, atol=1e-12)
    assert abs(y - heads(math.sqrt(D))).max() > 1e-4


@pytest.mark.slow
def test_000_mlp_mixer_is_linear_for_a_fixed_hidden_width() -> None:
    def growth(causal: bool, **settings: int) -> float:
        costs = [mixer_config({"kind": "mlp_mixer", **settings}).build(4, T, causal).cost(T).mul for T in (512, 2048)]
        return math.log(costs[1] / costs[0], 4)

    assert growth(False, hidden=64) == pytest.approx(1, abs=0.01)
    assert growth(False) == pytest.approx(2, abs=0.01)
    assert growth(True) == pytest.approx(2, abs=0.01)
