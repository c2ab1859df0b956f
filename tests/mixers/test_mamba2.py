"""Mamba-2 as a state space: each channel of a head has its own N states, which all have the same decay.

    (z, u, B, C, dt) = x W_in,   (u, B, C) = silu(conv(u, B, C) + b),   Δ = softplus(dt + b_dt)
    h_t = exp(-e^a Δ_t) h_{t-1} + Δ_t B_t u_t,   y_t = C_t · h_t + d u_t       per channel; a, d and Δ per head
    out = (r / √(mean of r² + ε) ∘ gain) W_out,   r = y ∘ silu(z)              the mean over the channels of a group

Source: Dao and Gu, arXiv:2405.21060, Eq. 16 and section 7; the order of the parts of W_in: mamba_ssm.
"""

import math
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.equation import Case, Recurrence, check_equation
from tests.mixers.peers import DIM, MLP, Make, check_cached_tokens, check_peer, strengthened, taps
from tests.mixers.recurrences.activations import each, silu, softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected
from tests.mixers.recurrences.mamba import convolved


def mamba2(x: Array, w: Weights, heads: int, groups: int, states: int, eps: float) -> Array:
    """x (T, D) -> (T, D); w["taps"] is (channels, W), w["gain"] (E / groups, groups)."""
    E = w["w_out"].shape[0]
    made = projected(x, w["w_in"])
    z, steps = made[:, :E], made[:, -heads:] + w["b_dt"]
    passed = each(silu, convolved(made[:, E:-heads], w["taps"].T, w["b_taps"]))
    u, B, C = passed[:, :E], passed[:, E : E + groups * states], passed[:, E + groups * states :]
    r, width = np.zeros((len(x), E)), E // heads
    for c in range(E):
        head = c // width
        group = slice(head * groups // heads * states, (head * groups // heads + 1) * states)
        h = np.zeros(states)
        for t in range(len(x)):
            step = softplus(steps[t, head])
            h = math.exp(-math.exp(w["a_log"][head]) * step) * h + step * B[t, group] * u[t, c]
            r[t, c] = (dot(C[t, group], h) + w["d"][head] * u[t, c]) * silu(z[t, c])
    for t in range(len(x)):
        for g in range(groups):
            part = slice(g * E // groups, (g + 1) * E // groups)
            r[t, part] /= math.sqrt(dot(r[t, part], r[t, part]) / (E // groups) + eps)
    return out(r * w["gain"].T.ravel(), w)


def mamba2_of(heads: int, groups: int, states: int) -> Recurrence:
    return lambda x, w: mamba2(x, w, heads, groups, states, eps=1e-5)


LETTERS = {
    **{"w_in.weight": "w_in", "w_out.weight": "w_out", "conv.weight": "taps", "conv.bias": "b_taps"},
    **{"a_log": "a_log", "step_bias": "b_dt", "d": "d", "norm.weight": "gain"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "mamba2": ({"kind": "mamba2", "state_dim": 3, "head_width": 4}, mamba2_of(4, 1, 3)),
    "mamba2, 2 groups": ({"kind": "mamba2", "state_dim": 5, "head_width": 2, "groups": 2}, mamba2_of(8, 2, 5)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_mamba2_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


def of_mamba2(peer: nn.Module, settings: dict[str, Any]) -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    theirs = dict(peer.named_parameters())
    mixer = mixer_config({"kind": "mamba2", **settings}).build(DIM, None)
    return (
        peer,
        mixer,
        {
            "w_in.weight": theirs["in_proj.weight"],
            "w_out.weight": theirs["out_proj.weight"],
            "conv.weight": taps(theirs["conv1d.weight"]),
            "conv.bias": theirs["conv1d.bias"],
            "a_log": theirs["A_log"],
            "step_bias": theirs["dt_bias"],
            "d": theirs["D"],
            "norm.weight": theirs["norm.weight"].unflatten(0, (settings.get("groups", 1), -1)),
        },
    )


def mamba2_layer() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    sizes = {"vocab_size": 11, "hidden_size": DIM, "num_heads": 4, "head_dim": 8, "state_size": 5, "n_groups": 2}
    config = transformers.Mamba2Config(**sizes, num_hidden_layers=1, chunk_size=4)
    return of_mamba2(strengthened(Mamba2Mixer(config, 0), config), {"state_dim": 5, "head_width": 8, "groups": 2})


def bamba() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")
    from transformers.models.bamba.modeling_bamba import BambaMixer

    sizes = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 5, "mamba_n_groups": 1, "mamba_chunk_size": 4}
    config = transformers.BambaConfig(**MLP, **sizes, num_hidden_layers=2, attn_layer_indices=[1])
    settings = {"state_dim": 5, "head_width": 8, "norm_eps": config.rms_norm_eps}
    return of_mamba2(strengthened(BambaMixer(config, 0), config), settings)


PEERS = {"mamba2": mamba2_layer, "bamba": bamba}


@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
@pytest.mark.parametrize("T", [1, 7, 70])
def test_mamba2_is_the_layer_of_transformers(make: Make, T: int) -> None:
    check_peer(make, T)


@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
def test_mamba2_reads_cached_tokens_as_transformers(make: Make) -> None:
    check_cached_tokens(make)
