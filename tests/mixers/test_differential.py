"""Differential attention: its share in each layer, positions, pieces, and settings that do not fit.

Differential attention, query by query.

    1   [Q_1; Q_2] = X W^Q, [K_1; K_2] = X W^K per head,   λ = e^{λ_q1·λ_k1} - e^{λ_q2·λ_k2} + λ_init       Eq. 1, 2
        head = (1 - λ_init) LN((softmax(Q_1 K_1ᵀ/√d) - λ softmax(Q_2 K_2ᵀ/√d)) V),   LN the RMS norm        Eq. 3
    2   head = (softmax(Q_1 Kᵀ/√d) - σ(x w_λ) softmax(Q_2 Kᵀ/√d)) V

Source: Ye et al., Differential Transformer, arXiv:2410.05258, section 2; version 2 of the authors' program.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.positions.rotary import RotaryConfig
from tests.mixers.equation import Case, check_equation, paper_weights
from tests.mixers.peers import DIM, MLP, OfAngles, check_cached_tokens, check_peer, strengthened
from tests.mixers.recurrences.arithmetic import Array, Weights, dot, out, projected, sigmoid

D, H = 8, 2


def built(version: int, dtype: torch.dtype = torch.float64, context: int | None = None, **asked: Any) -> Mixer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "differential", "heads": H, "version": version}).build(D, context, **asked).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1, 5])
def test_a_layer_is_initialized_with_the_share_of_its_number(layer: int) -> None:
    mixer, x = built(1, layer=layer, depth=6), draw(7, D)
    expected = differential(x.numpy(), paper_weights(mixer, LETTERS), H, 1, start=0.8 - 0.6 * math.exp(-0.3 * layer))
    torch.testing.assert_close(mixer(x[None])[0], torch.from_numpy(expected), rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("context", [None, 5])
@pytest.mark.parametrize("position", [None, RotaryConfig()])
def test_pieces_and_steps_of_differential_are_the_whole(
    version: int, context: int | None, position: RotaryConfig | None
) -> None:
    mixer, x = built(version, context=context, position=position), draw(2, 17, D)
    y, state = mixer.extend(x[:, :3], mixer.start(2))
    z, state = mixer.extend(x[:, 3:9], state)
    parts = [y, z]
    for t in range(9, 17):
        y, state = mixer.step(x[:, t], state, reuse=t > 12)
        parts.append(y[:, None])
    torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=0, atol=1e-12)


@torch.no_grad()
def test_what_both_softmaxes_read_alike_is_taken_off() -> None:
    """With equal queries in both, version 2 gives what attention gives, times 1 - λ."""
    mixer, x = built(2), draw(1, 9, D)
    mixer.get_parameter("w_share.weight").zero_()  # λ = 1/2
    queries = mixer.get_parameter("w_q.weight").view(2 * H, D // H, D)
    queries[1::2] = queries[0::2]
    attention = mixer_config({"kind": "attention", "heads": H}).build(D, None).double()
    parts = (queries[0::2].flatten(0, 1), *(mixer.get_parameter(f"w_{name}.weight") for name in "kv"))
    attention.get_parameter("w_qkv.weight").copy_(torch.cat(parts))
    attention.get_parameter("w_out.weight").copy_(mixer.get_parameter("w_o.weight"))
    torch.testing.assert_close(mixer(x), attention(x) / 2, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("version", [1, 2])
def test_inputs_of_ten_thousand(version: int) -> None:
    mixer = built(version, torch.float32)
    assert bool(mixer(1e4 * draw(1, 600, D, dtype=torch.float32)).isfinite().all())


@pytest.mark.slow
def test_lambda_is_initialized_near_its_start() -> None:
    mixer = mixer_config({"kind": "differential", "heads": 1}).build(2048, None)
    assert float(mixer.get_parameter("vectors").detach().std()) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 8}, "dim 8 is not divisible by 8 pairs of heads"),
        ({"heads": 3, "version": 2}, "dim 8 is not divisible by heads 3"),
    ],
)
def test_heads_of_differential_that_do_not_divide(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer_config({"kind": "differential", **settings}).build(D, None)


def shares(q: Array, k: Array, t: int) -> list[float]:
    """The softmax of query t."""
    powers = [math.exp(dot(q[t], k[j]) / math.sqrt(q.shape[1])) for j in range(t + 1)]
    return [power / sum(powers) for power in powers]


def columns(x: Array, number: int, width: int) -> Array:
    return x[:, number * width : (number + 1) * width]


def differential(x: Array, w: Weights, heads: int, version: int, start: float = 0.2) -> Array:
    """x (T, D) -> (T, D); `start` is λ_init."""
    T, D = x.shape
    queries, keys, values = (projected(x, w[name]) for name in ("w_q", "w_k", "w_v"))
    V, K = D // heads, D // (2 * heads) if version == 1 else D // heads
    y = np.zeros((T, D))
    for h in range(heads):
        v = columns(values, h, V)
        q1, q2 = (columns(queries, 2 * h + n, K) for n in range(2))
        k1, k2 = (columns(keys, 2 * h + n if version == 1 else h, K) for n in range(2))
        for t in range(T):
            if version == 1:
                of_first, of_second = (math.exp(dot(*pair)) for pair in w["vectors"])
                share = of_first - of_second + start
            else:
                share = sigmoid(dot(x[t], w["w_share"][:, h]))
            first, second = shares(q1, k1, t), shares(q2, k2, t)
            head = sum((first[j] - share * second[j]) * v[j] for j in range(t + 1))
            if version == 1:
                root = math.sqrt(sum(number**2 for number in head) / V + 1e-5)
                head = (1 - start) * head / root * w["gain"]
            y[t, h * V : (h + 1) * V] = head
    return out(y, w)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in ("q", "k", "v", "share")},
    **{"w_o.weight": "w_out", "norm.weight": "gain", "vectors": "vectors"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "differential": ({"kind": "differential", "heads": 2}, lambda x, w: differential(x, w, 2, 1)),
    "differential, version 2": (
        {"kind": "differential", "heads": 2, "version": 2},
        lambda x, w: differential(x, w, 2, 2),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_differential_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


def diffllama() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    """Its heads h and h + H are a pair; its norm has no gain."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention, DiffLlamaRotaryEmbedding

    H, K, layer = 2, DIM // 4, 1
    sizes = {"num_attention_heads": 2 * H, "num_key_value_heads": 2 * H, "num_hidden_layers": 2, "rms_norm_eps": 1e-5}
    config = transformers.DiffLlamaConfig(**{**MLP, **sizes})
    config._attn_implementation = "eager"
    peer = OfAngles(strengthened(DiffLlamaAttention(config, layer), config), DiffLlamaRotaryEmbedding(config))
    theirs = {name.removeprefix("attention."): parameter for name, parameter in peer.named_parameters()}
    pairs = torch.arange(2 * H).view(2, H).T.flatten()
    projections = {
        f"w_{name}.weight": theirs[f"{name}_proj.weight"].unflatten(0, (2 * H, K))[pairs].flatten(0, 1)
        for name in "qkv"
    }
    vectors = [torch.stack([theirs[f"lambda_q{n}"], theirs[f"lambda_k{n}"]]) for n in (1, 2)]
    weights = {
        **projections,
        "w_o.weight": theirs["o_proj.weight"],
        "vectors": torch.stack(vectors),
        "norm.weight": 1 + 0 * theirs["o_proj.weight"][0, : 2 * K],
    }
    mixer = mixer_config({"kind": "differential", "heads": H}).build(
        DIM, None, layer=layer, depth=2, position=RotaryConfig()
    )
    return peer, mixer, weights


@pytest.mark.parametrize("T", [1, 7, 70])
def test_differential_is_the_layer_of_transformers(T: int) -> None:
    check_peer(diffllama, T)


def test_differential_reads_cached_tokens_as_transformers() -> None:
    check_cached_tokens(diffllama)
