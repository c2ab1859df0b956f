"""Kimi Delta Attention is its paper's recurrence over matrices S (V, K).

    S_t = S_{t-1} diag(α_t) (I - β_t k_t k_tᵀ) + β_t v_t k_tᵀ,  α a vector over the keys' channels; a gate σ

Source: Kimi Team, arXiv:2510.26692, Eq. 1.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.equation import Case, check_equation
from tests.mixers.peers import DIM, MLP, check_cached_tokens, check_peer, strengthened, taps
from tests.mixers.recurrences.activations import each, softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid
from tests.mixers.recurrences.delta_rule import delta_rule, normed, of_equal_widths


def kda(x: Array, w: Weights, heads: int) -> Array:
    """x (T, D) -> (T, D)."""
    strengths, Y = each(sigmoid, projected(x, w["w_b"])), np.zeros_like(x)
    rates = each(softplus, projected(projected(x, w["decay_in"]), w["decay_out"]) + w["b_a"])
    gates = each(sigmoid, projected(projected(x, w["gate_in"]), w["gate_out"]) + w["b_g"])
    for h in range(heads):
        q, k, v, part = of_equal_widths(x, w, h, heads)
        alpha = np.exp(-math.exp(w["a_log"][h]) * rates[:, part])
        Y[:, part] = normed(delta_rule(q, k, v, alpha, strengths[:, h]), w["gain"], 1e-5)
    return out(Y * gates, w)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "b")},
    **{"conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out", "a_log": "a_log"},
    **{f"{name}_{end}.weight": f"{name}_{end}" for name in ("decay", "gate") for end in ("in", "out")},
    **{"decay_out.bias": "b_a", "gate_out.bias": "b_g"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "kda": ({"kind": "kda", "heads": 2, "rank": 3}, lambda x, w: kda(x, w, 2)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_kda_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


def kimi() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")
    from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention

    config = transformers.KimiLinearConfig(
        **{**MLP, "linear_num_heads": 2, "linear_head_dim": DIM // 2, "num_hidden_layers": 2},
        layer_types=["linear_attention", "full_attention"],
    )
    peer = strengthened(KimiLinearDeltaAttention(config, 0), config)
    theirs = dict(peer.named_parameters())
    settings = {"heads": 2, "gate_bias": False, "norm_eps": config.rms_norm_eps}
    return (
        peer,
        mixer_config({"kind": "kda", **settings}).build(DIM, None),
        {
            "w_qkv.weight": torch.cat([theirs[f"{name}_proj.weight"] for name in "qkv"]),
            "decay_in.weight": theirs["forget_gate.f_a_proj.weight"],
            "decay_out.weight": theirs["forget_gate.f_b_proj.weight"],
            "decay_out.bias": theirs["forget_gate.dt_bias"],
            "gate_in.weight": theirs["g_a_proj.weight"],
            "gate_out.weight": theirs["g_b_proj.weight"],
            "w_b.weight": theirs["b_proj.weight"],
            "w_o.weight": theirs["o_proj.weight"],
            "norm.weight": theirs["o_norm.weight"],
            "a_log": theirs["forget_gate.A_log"].flatten(),
            "conv.weight": taps(theirs["conv1d.weight"]),
        },
    )


@pytest.mark.parametrize("T", [1, 7, 70])
def test_kda_is_the_layer_of_transformers(T: int) -> None:
    """Kimi multiplies by e^{-G} of a chunk: it is 3.3e-6 from float64, the mixer 2.1e-6."""
    check_peer(kimi, T, 5e-6)


def test_kda_reads_cached_tokens_as_transformers() -> None:
    check_cached_tokens(kimi)
