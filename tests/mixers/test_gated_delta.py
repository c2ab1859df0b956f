"""Gated DeltaNet is its paper's recurrence over matrices S (V, K).

    S_t = S_{t-1} (α_t (I - β_t k_t k_tᵀ)) + β_t v_t k_tᵀ,   o_t = S_t q_t / √K                        Eq. 10
    q, k, v = silu(conv(x W)),  q and k over their length,  α = exp(-A softplus(x W_a + b_a)),  β = c σ(x W_b)
    out = (o / √(mean of o² + ε) ∘ gain ∘ silu(x W_g)) W_o

Source: Yang et al., arXiv:2412.06464, section 3.1; A and b_a as in flash-linear-attention.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.equation import Case, Recurrence, check_equation
from tests.mixers.peers import (
    DIM,
    MLP,
    Make,
    check_cached_tokens,
    check_peer,
    near,
    strengthened,
    taps,
    with_the_same_weights,
)
from tests.mixers.recurrences.activations import each, silu, softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid
from tests.mixers.recurrences.delta_rule import delta_rule, normed, unit
from tests.mixers.recurrences.mamba import convolved


def gated_delta(x: Array, w: Weights, heads: int, value_heads: int, strongest: float, eps: float) -> Array:
    """x (T, D) -> (T, D); w["taps"] is (channels, W)."""
    made = projected(x, w["w_qkv"])
    made = each(silu, convolved(made, w["taps"].T, np.zeros(made.shape[1])))
    V = w["w_out"].shape[0] // value_heads
    K = (made.shape[1] - V * value_heads) // (2 * heads)
    logits, strengths = projected(x, w["w_a"]) + w["b_a"], projected(x, w["w_b"])
    gates, Y = each(silu, projected(x, w["w_g"])), np.zeros((len(x), value_heads * V))
    for h in range(value_heads):
        of = h * heads // value_heads
        q, k = (np.stack([unit(row) for row in made[:, at : at + K]]) for at in (of * K, (heads + of) * K))
        v = made[:, 2 * heads * K + h * V : 2 * heads * K + (h + 1) * V]
        alpha = [math.exp(-math.exp(w["a_log"][h]) * softplus(logit)) for logit in logits[:, h]]
        beta = np.array([strongest * sigmoid(number) for number in strengths[:, h]])
        y = delta_rule(q, k, v, np.tile(np.array(alpha)[:, None], K), beta)
        Y[:, h * V : (h + 1) * V] = normed(y, w["gain"], eps) * gates[:, h * V : (h + 1) * V]
    return out(Y, w)


def gated_delta_of(heads: int, value_heads: int, strongest: float = 1.0) -> Recurrence:
    return lambda x, w: gated_delta(x, w, heads, value_heads, strongest, eps=1e-5)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "a", "b", "g")},
    **{"w_a.bias": "b_a", "a_log": "a_log", "conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "gated_delta": ({"kind": "gated_delta", "heads": 2}, gated_delta_of(2, 2)),
    "gated_delta, shared keys": (
        {"kind": "gated_delta", "heads": 1, "value_heads": 2, "key_width": 3, "value_width": 5, "negative": True},
        gated_delta_of(1, 2, strongest=2.0),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_gated_delta_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


def olmo() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")
    from transformers.models.olmo_hybrid.modeling_olmo_hybrid import OlmoHybridGatedDeltaNet

    sizes = {"linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 6}
    config = transformers.OlmoHybridConfig(
        **{**MLP, **sizes, "linear_value_head_dim": 12, "num_hidden_layers": 2, "linear_allow_neg_eigval": True},
        layer_types=["linear_attention", "full_attention"],
    )
    peer = strengthened(OlmoHybridGatedDeltaNet(config, 0), config)
    theirs = dict(peer.named_parameters())
    return (
        peer,
        mixer_config({"kind": "gated_delta", "heads": 2, "negative": True}).build(DIM, None),
        {
            "w_qkv.weight": torch.cat([theirs[f"{name}_proj.weight"] for name in "qkv"]),
            "w_a.weight": theirs["a_proj.weight"],
            "w_a.bias": theirs["dt_bias"],
            "w_b.weight": theirs["b_proj.weight"],
            "w_g.weight": theirs["g_proj.weight"],
            "w_o.weight": theirs["o_proj.weight"],
            "norm.weight": theirs["o_norm.weight"],
            "a_log": theirs["A_log"],
            "conv.weight": taps(theirs["conv1d.weight"]),
        },
    )


def qwen() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    """Its one projection holds q, k, v and z head by head of the keys, and β and a likewise."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    H, R, K, V = 2, 2, 5, 3  # heads, heads of values for each, widths
    sizes = {"linear_num_key_heads": H, "linear_num_value_heads": H * R, "linear_key_head_dim": K}
    config = transformers.Qwen3NextConfig(
        **{**MLP, **sizes, "linear_value_head_dim": V, "num_hidden_layers": 2, "rms_norm_eps": 1e-6},
        layer_types=["linear_attention", "full_attention"],
    )
    peer = strengthened(Qwen3NextGatedDeltaNet(config, 0), config)
    theirs = dict(peer.named_parameters())
    parts = theirs["in_proj_qkvz.weight"].unflatten(0, (H, -1)).split((K, K, R * V, R * V), 1)
    q, k, v, z = (part.flatten(0, 1) for part in parts)
    b, a = (part.flatten(0, 1) for part in theirs["in_proj_ba.weight"].unflatten(0, (H, -1)).split((R, R), 1))
    settings = {"heads": H, "value_heads": H * R, "key_width": K, "value_width": V, "norm_eps": 1e-6}
    return (
        peer,
        mixer_config({"kind": "gated_delta", **settings}).build(DIM, None),
        {
            "w_qkv.weight": torch.cat([q, k, v]),
            "w_a.weight": a,
            "w_a.bias": theirs["dt_bias"],
            "w_b.weight": b,
            "w_g.weight": z,
            "w_o.weight": theirs["out_proj.weight"],
            "norm.weight": theirs["norm.weight"],
            "a_log": theirs["A_log"],
            "conv.weight": taps(theirs["conv1d.weight"]),
        },
    )


PEERS = {"olmo": olmo, "qwen": qwen}


@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
@pytest.mark.parametrize("T", [1, 7, 70])
def test_gated_delta_is_the_layer_of_transformers(make: Make, T: int) -> None:
    """At 70 tokens Qwen is 2.02e-6 from ours."""
    check_peer(make, T, 3e-6)


@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
def test_gated_delta_reads_cached_tokens_as_transformers(make: Make) -> None:
    check_cached_tokens(make)


def test_a_mixer_of_other_weights_is_not_its_peer() -> None:
    peer, mixer, _ = with_the_same_weights(olmo)
    with torch.no_grad():
        mixer.get_parameter("a_log").add_(0.01)
        with pytest.raises(AssertionError):
            near(mixer(torch.ones(1, 9, DIM)), peer(torch.ones(1, 9, DIM)), 2e-6)
