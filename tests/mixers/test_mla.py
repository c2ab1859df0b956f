"""MLA's cache and its absorbed form: what they hold and compute, and settings that do not fit.

Multi-head latent attention, query by query, with keys and values of every token rebuilt.

    c^KV_t = norm(W^DKV h_t),  [k^C_t; v^C_t] = W^UKV c^KV_t                                    Eq. 9-11
    c^Q_t = norm(W^DQ h_t),  q^C_t = W^UQ c^Q_t                                                 Eq. 12, 13
    q^R = RoPE(W^QR c^Q),  k^R = RoPE(W^KR h),  one k^R for all heads                           Eq. 14, 15
    o_{t,i} = Σ_j softmax_j(q_{t,i}ᵀ k_{j,i} / √(d_h + d_h^R)) v^C_{j,i},   q = [q^C; q^R], k = [k^C; k^R]   Eq. 16-18

RoPE turns the pair (2c, 2c+1) by t base^{-2c/R}.

Source: DeepSeek-AI, DeepSeek-V2, arXiv:2405.04434, section 2.1.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.core.state import nbytes
from seqloom.counting.count import count
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.equation import Case, check_equation
from tests.mixers.peers import DIM, MLP, Make, OfAngles, check_cached_tokens, check_peer, strengthened
from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected

D, H, RANK, R = 8, 2, 3, 2


def built(context: int | None = None, dtype: torch.dtype = torch.float64, **settings: Any) -> Mixer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "mla", "heads": H, "rank": RANK, **settings}).build(D, context).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@torch.no_grad()
def test_the_cache_is_the_small_vector_and_the_key() -> None:
    mixer = built()
    _, state = mixer.extend(draw(1, 7, D), mixer.start(1))
    assert state["c"].shape == (1, 7, RANK + R)
    assert nbytes(mixer.trim(state)) == 8 * mixer.cost(7).state == 8 * 7 * (RANK + R)
    assert mixer.cost(7).state < mixer_config({"kind": "attention", "heads": H}).build(D, None).cost(7).state


@torch.no_grad()
@pytest.mark.parametrize("T", [1, 2, 9])
def test_a_step_executes_the_absorbed_form(T: int) -> None:
    """For each head, rows of C + R and of C numbers: no key and no value is rebuilt."""
    mixer, x = built(rotary=False), draw(1, T, D)
    state = mixer.extend(x[:, :-1], mixer.start(1))[1] if T > 1 else mixer.start(1)
    with backends.use(attention="reference", projection="reference"):
        result = count(lambda: mixer.step(x[:, -1], state))
    K = D // H
    projections = D * RANK + D * R + D * H * (K + R) + D * D
    absorbed = H * K * RANK + H * RANK * K
    norm = 3 * RANK
    assert result.mul == projections + norm + absorbed + T * H * (RANK + R) + T * H + T * H * RANK
    assert result.exp == T * H


@torch.no_grad()
def test_the_shared_key_alone_is_turned() -> None:
    """Moved by any number of tokens, the same text reads the same; without rotary it is a bag of tokens."""
    mixer, x = built(), draw(1, 6, D)
    still = built(rotary=False)
    mixed = torch.cat([x[:, [2, 0, 4, 1, 3]], x[:, 5:]], 1)
    torch.testing.assert_close(still(mixed)[:, -1], still(x)[:, -1], rtol=0, atol=1e-12)
    assert not torch.allclose(mixer(mixed)[:, -1], mixer(x)[:, -1])


@torch.no_grad()
def test_inputs_of_ten_thousand() -> None:
    mixer = built(dtype=torch.float32)
    assert bool(mixer(1e4 * draw(1, 600, D, dtype=torch.float32)).isfinite().all())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "dim 8 is not divisible by heads 3"),
        ({"rank": 9}, "rank 9 is above the width 8"),
        ({"query_rank": 9}, "query_rank 9 is above the width 8"),
        ({"rotary_width": 3}, "rotary_width 3 is odd"),
    ],
)
def test_settings_of_mla_that_do_not_fit(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer_config({"kind": "mla", **settings}).build(D, None)


def normed(x: Array, gain: Array) -> Array:
    return np.stack([row / math.sqrt(sum(number**2 for number in row) / len(row) + 1e-6) * gain for row in x])


def turned(row: Array, t: int, base: float) -> Array:
    y, R = np.zeros_like(row), len(row)
    for c in range(R // 2):
        angle = t * base ** (-2 * c / R)
        y[2 * c] = row[2 * c] * math.cos(angle) - row[2 * c + 1] * math.sin(angle)
        y[2 * c + 1] = row[2 * c + 1] * math.cos(angle) + row[2 * c] * math.sin(angle)
    return y


def mla(x: Array, w: Weights, heads: int, base: float | None) -> Array:
    """x (T, D) -> (T, D); without a base nothing is turned."""
    T, R, K = len(x), w["w_r"].shape[1], x.shape[1] // heads
    small = normed(projected(x, w["w_d"]), w["gain_d"]) if "w_d" in w else x
    rebuilt = projected(normed(projected(x, w["w_c"]), w["gain"]), w["w_kv"]).reshape(T, heads, 2 * K)
    queries, shared = projected(small, w["w_q"]).reshape(T, heads, K + R), projected(x, w["w_r"])
    if base is not None:
        shared = np.stack([turned(row, t, base) for t, row in enumerate(shared)])
        for t in range(T):
            for h in range(heads):
                queries[t, h, K:] = turned(queries[t, h, K:], t, base)
    y = np.zeros((T, heads, K))
    for h in range(heads):
        for t in range(T):
            keys = [np.concatenate([rebuilt[j, h, :K], shared[j]]) for j in range(t + 1)]
            powers = [math.exp(dot(queries[t, h], key) / math.sqrt(K + R)) for key in keys]
            for j, power in enumerate(powers):
                y[t, h] += power / sum(powers) * rebuilt[j, h, K:]
    return out(y.reshape(T, -1), w)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in ("c", "r", "d", "q", "kv")},
    **{"w_o.weight": "w_out", "norm.weight": "gain", "norm_d.weight": "gain_d"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "mla": ({"kind": "mla", "heads": 2, "rank": 3, "base": 10.0}, lambda x, w: mla(x, w, 2, 10.0)),
    "mla, small queries": (
        {"kind": "mla", "heads": 2, "query_rank": 5, "rotary_width": 4},
        lambda x, w: mla(x, w, 2, 1e4),
    ),
    "mla, not turned": (
        {"kind": "mla", "heads": 4, "rotary": False, "rotary_width": 1},
        lambda x, w: mla(x, w, 4, None),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_mla_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


def deepseek(query_rank: int | None = None) -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    transformers = pytest.importorskip("transformers")
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding

    H, K, R, rank = 2, DIM // 2, 4, 5
    sizes = {"q_lora_rank": query_rank, "kv_lora_rank": rank, "qk_nope_head_dim": K, "qk_rope_head_dim": R}
    config = transformers.DeepseekV3Config(
        **{**MLP, **sizes, "v_head_dim": K, "num_hidden_layers": 1, "rope_interleave": True, "head_dim": R}
    )
    config._attn_implementation = "eager"
    attention = strengthened(DeepseekV3Attention(config, 0), config)
    peer = OfAngles(attention, DeepseekV3RotaryEmbedding(config))
    theirs = {name.removeprefix("attention."): parameter for name, parameter in peer.named_parameters()}
    small, shared = theirs["kv_a_proj_with_mqa.weight"].split((rank, R))
    weights = {
        "w_c.weight": small,
        "w_r.weight": shared,
        "norm.weight": theirs["kv_a_layernorm.weight"],
        "w_kv.weight": theirs["kv_b_proj.weight"],
        "w_o.weight": theirs["o_proj.weight"],
        "w_q.weight": theirs["q_b_proj.weight" if query_rank else "q_proj.weight"],
    }
    if query_rank:
        weights |= {"w_d.weight": theirs["q_a_proj.weight"], "norm_d.weight": theirs["q_a_layernorm.weight"]}
    settings = {"heads": H, "rank": rank, "query_rank": query_rank or 0, "rotary_width": R}
    return peer, mixer_config({"kind": "mla", **settings}).build(DIM, None), weights


PEERS = {"deepseek": deepseek, "deepseek, small queries": partial(deepseek, 6)}


@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
@pytest.mark.parametrize("T", [1, 7, 70])
def test_mla_is_the_layer_of_transformers(make: Make, T: int) -> None:
    check_peer(make, T)


@pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
def test_mla_reads_cached_tokens_as_transformers(make: Make) -> None:
    check_cached_tokens(make)
