"""Attention, its positions and its random features to the letter of seeds 001, 002 and 004, against their papers.

docs/errata.md has the list. Seed 002 is a survey of Transformers; what it prints of systems that are not here is left.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.models.ffn import FFN
from seqloom.ops.attention import attend, everywhere, weights
from seqloom.ops.bucketing import Rule, by_bucket
from seqloom.ops.bucketing import attend as bucketed
from seqloom.positions.rotary import angles, rotate, turns
from seqloom.training.settings import resolve
from tests.mixers.recurrences import rfa
from tests.mixers.recurrences.arithmetic import Array, dot

T, D, H = 6, 4, 2
RNG = np.random.default_rng(7)
Q, K, V = (RNG.normal(size=(T, D)) for _ in range(3))


def near(a: Array, b: Array) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-10))


def attention(q: Array, k: Array, v: Array) -> Array:
    """Ours, one head, causal."""
    return attend(*(torch.tensor(x)[None, None] for x in (q, k, v)))[0, 0].numpy()


def mean(q: Array, k: Array, v: Array, weight: Callable[[Array, Array], float]) -> Array:
    """Σ_{j≤i} weight(q_i, k_j) v_j / Σ_{j≤i} weight(q_i, k_j)."""
    a = [np.array([weight(q[i], k[j]) for j in range(i + 1)]) for i in range(len(v))]
    return np.array([each @ v[: i + 1] / each.sum() for i, each in enumerate(a)])


def test_002_softmax_has_its_scale_outside_of_the_exponential() -> None:
    """Printed: e^{q·k} / (√d Σ e^{q·k}). The scale belongs to the score: as printed a row adds up to 1/√d."""
    same = np.ones((T, D))
    printed = mean(Q, K, same, lambda q, k: math.exp(dot(q, k))) / math.sqrt(D)
    assert near(printed, same / math.sqrt(D))
    assert near(attention(Q, K, same), same)
    assert near(attention(Q, K, V), mean(Q, K, V, lambda q, k: math.exp(dot(q, k) / math.sqrt(D))))
    assert not near(attention(Q, K, V), mean(Q, K, V, lambda q, k: math.exp(dot(q, k))) / math.sqrt(D))


def test_002_scales_a_head_by_the_width_of_all() -> None:
    """Printed: √d_k, with d_k the width before it is cut into h heads. A head's queries and keys are d_k/h wide."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "attention", "heads": H}).build(D, None).double()
    x = torch.randn(1, T, D, dtype=torch.float64)
    with torch.no_grad():
        mixer.w_qkv.weight[: 2 * D].copy_(torch.randn(2 * D, D))
        q, k, v = (each[0].numpy() for each in mixer.w_qkv(x).chunk(3, -1))
        result = mixer(x)[0].numpy()

    def heads(width: float) -> Array:
        parts = [slice(h * D // H, (h + 1) * D // H) for h in range(H)]
        each = [mean(q[:, p], k[:, p], v[:, p], lambda a, b: math.exp(dot(a, b) / math.sqrt(width))) for p in parts]
        return np.concatenate(each, 1) @ mixer.w_out.weight.detach().numpy().T

    assert near(result, heads(D / H))
    assert not near(result, heads(D))


@pytest.mark.parametrize("masked", [False, True])
def test_001_eq_2_to_5_leave_the_scale_out(masked: bool) -> None:
    """Printed: e^{q·k}. Attention has e^{q·k/√d}; the print is that of queries √d as long."""
    keys = [K if not masked else K[: i + 1] for i in range(T)]
    a = [np.exp(keys[i] @ Q[i]) for i in range(T)]
    printed = np.array([each @ V[: len(each)] / each.sum() for each in a])
    q, k, v = (torch.tensor(x)[None, None] for x in (Q, K, V))
    pattern = {} if masked else {"pattern": everywhere}
    assert not near(attend(q, k, v, **pattern)[0, 0].numpy(), printed)
    assert near(attend(q * math.sqrt(D), k, v, **pattern)[0, 0].numpy(), printed)


def test_002_calls_attention_invariant_to_permutations() -> None:
    """Said: self-attention is permutation-invariant. It is equivariant: the outputs are put in the same order."""
    order = [3, 1, 0, 5, 4, 2]
    q, k, v = (torch.tensor(x)[None, None] for x in (Q, K, V))
    before = attend(q, k, v, pattern=everywhere)[0, 0].numpy()
    after = attend(q[:, :, order], k[:, :, order], v[:, :, order], pattern=everywhere)[0, 0].numpy()
    assert not near(after, before)
    assert near(after, before[order])


def test_004_ascribes_the_mask_to_the_encoder() -> None:
    """Said: masked so that "the encoder" sees no future token. The mask is the decoder's: ours has none without it."""
    q, k = (torch.tensor(x)[None, None] for x in (Q, K))
    assert bool((weights(q, k).triu(1) == 0).all())
    assert bool((weights(q, k, pattern=everywhere).triu(1).sum() > 0).all())


def test_004_feed_forward_network_exchanges_no_information() -> None:
    """Said: it enhances the exchange of information. It reads each token for itself; the mixer is what exchanges."""
    torch.manual_seed(0)
    channel, x = FFN(D, 3 * D).double(), torch.randn(1, T, D, dtype=torch.float64)
    other = x.clone()
    other[0, 2] += 1
    moved = (channel(x) != channel(other)).any(-1)[0]
    assert moved.tolist() == [False, False, True, False, False, False]


def turned(x: Array, first: int = 0) -> Array:
    """Ours: the channels of each row turned by its place, from `first`."""
    cos, sin = turns(torch.arange(first, first + len(x)), angles(x.shape[1]), torch.float64)
    return rotate(torch.tensor(x), cos, sin).numpy()


def printed_rotation(position: int, repaired: bool) -> Array:
    """Seed 002's matrix for d = 4: its fourth row has θ_1 where θ_2 belongs."""
    one, two = angles(4).tolist()
    a, b, c = position * one, position * two, position * (two if repaired else one)
    return np.array(
        [
            [math.cos(a), -math.sin(a), 0, 0],
            [math.sin(a), math.cos(a), 0, 0],
            [0, 0, math.cos(b), -math.sin(b)],
            [0, 0, math.sin(c), math.cos(c)],
        ]
    )


def test_002_rotation_matrix_repeats_an_angle() -> None:
    """Printed: a fourth row of θ_1. Lengths change, and a product depends on more than the distance."""
    apart = [0, 2, 1, 3]  # neighbors are its pairs; ours are half the width apart
    for position in range(1, 5):
        right, wrong = printed_rotation(position, repaired=True), printed_rotation(position, repaired=False)
        assert near(right[:, apart][apart] @ Q[0], turned(Q[:1], position)[0])
        assert near(right.T @ right, np.eye(D))
        assert not near(wrong.T @ wrong, np.eye(D))

    def score(i: int, j: int, repaired: bool) -> float:
        return dot(printed_rotation(i, repaired) @ Q[0], printed_rotation(j, repaired) @ K[0])

    assert math.isclose(score(5, 3, True), score(9, 7, True))
    assert not math.isclose(score(5, 3, False), score(9, 7, False), rel_tol=1e-3)


def test_002_turns_values_where_queries_belong() -> None:
    """Said: RoPE multiplies "key and value" matrices. It is query and key: else what a token reads moves with it."""

    def read(first: int, turn: str) -> Array:
        q, k, v = (turned(x, first) if name in turn else x for name, x in (("q", Q), ("k", K), ("v", V)))
        return attention(q, k, v)

    assert near(read(0, "qk"), read(40, "qk"))
    assert not near(read(0, "kv"), read(40, "kv"))
    assert not near(read(0, "qk"), attention(Q, K, V))  # and positions matter at all


def test_002_rope_product_lacks_a_transpose() -> None:
    """Printed: x_iᵀ W^q R_{j-i} W^k x_j. With q = R_i W^q x_i it is x_iᵀ W^qᵀ R_{j-i} W^k x_j."""
    w_q, w_k = RNG.normal(size=(D, D)), RNG.normal(size=(D, D))
    x, y = Q[0], K[0]
    i, j = (printed_rotation(position, repaired=True) for position in (2, 5))
    assert near(i.T @ j, printed_rotation(3, repaired=True))
    score = dot(i @ w_q @ x, j @ w_k @ y)
    assert math.isclose(score, x @ w_q.T @ printed_rotation(3, repaired=True) @ w_k @ y)
    assert not math.isclose(score, x @ w_q @ printed_rotation(3, repaired=True) @ w_k @ y, rel_tol=1e-3)


def test_002_rfa_loses_an_exponential() -> None:
    """Printed: e^{|x|²/2σ²} e^{|y|²/2σ²} (-|x-y|²/2σ²), which is below 0, for e^{x·y/σ²}, which is above."""
    for sigma in (0.7, 1.0, 2.0):
        x, y, twice = Q[0], K[0], 2 * sigma**2
        right, others = math.exp(dot(x, y) / sigma**2), math.exp((dot(x, x) + dot(y, y)) / twice)
        distance = -dot(x - y, x - y) / twice
        assert others * distance < 0 < right
        assert math.isclose(others * math.exp(distance), right)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_002_rfa_draws_with_the_inverse_of_its_width(sigma: float) -> None:
    """Printed: w ~ N(0, σ² I) for e^{-|x-y|²/2σ²}. It takes N(0, I/σ²): the same for σ = 1 alone."""
    x, y = (row / np.sqrt(row @ row) for row in (Q[0], K[0]))
    expected = math.exp(-dot(x - y, x - y) / (2 * sigma**2))
    draws = RNG.normal(size=(200_000, D))
    for scale, right in ((sigma, sigma == 1.0), (1 / sigma, True)):
        actual = float(np.cos(scale * draws @ (x - y)).mean())
        assert (abs(actual - expected) < 0.01) is right
    directions = draws[:2000] / sigma
    assert abs(dot(rfa.phi(x, directions, 0.0), rfa.phi(y, directions, 0.0)) - expected) < 0.05


def test_002_rfa_needs_keys_of_one_length() -> None:
    """Printed: softmax attention ≈ φ(q)·φ(k) weights, of any keys. e^{|k|²/2σ²} cancels for one length alone."""

    def softmax(q: Array, k: Array) -> float:
        return math.exp(dot(q, k))

    def gaussian(q: Array, k: Array) -> float:  # what φ(q)·φ(k) is in the mean
        return math.exp(-dot(q - k, q - k) / 2)

    unit = [row / np.sqrt((row * row).sum(1, keepdims=True)) for row in (Q, K)]
    assert not near(mean(Q, K, V, softmax), mean(Q, K, V, gaussian))
    assert near(mean(*unit, V, softmax), mean(*unit, V, gaussian))
    mixer = mixer_config({"kind": "rfa", "heads": 1, "features": 8}).build(D, None).double()
    x = torch.tensor(Q)[None]
    with torch.no_grad():
        before = mixer(x)
        mixer.w_k.weight.mul_(3)  # ours brings keys to length 1
        assert torch.allclose(mixer(x), before, rtol=0, atol=1e-5 * float(before.abs().max()))


def rfa_weights(gate: bool) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    w = {name: rng.normal(size=(D, D)) for name in ("w_q", "w_k", "w_v")}
    w |= {"directions": rng.normal(size=(1, 64, D)), "sigma": np.full((1, D), 0.5)}
    return w | ({"gate_w": rng.normal(size=(D, 1)), "gate_b": np.zeros(1)} if gate else {})


@pytest.mark.slow
def test_002_rfa_has_no_gate() -> None:
    """Printed: S_t = S_{t-1} + φ(k_t) ⊗ v_t alone, half of the paper: with its gate (Eq. 7) the past fades."""
    w, x = rfa_weights(gate=False), np.concatenate([Q, K, V])
    q, k, v = (x @ w[name] for name in ("w_q", "w_k", "w_v"))
    features = [[rfa.phi(row, 0.5 * w["directions"][0], 0.0) for row in rows] for rows in (q, k)]
    printed = np.zeros_like(v)
    S, z = np.zeros((128, D)), np.zeros(128)
    for t, (query, key) in enumerate(zip(*features, strict=True)):
        S, z = S + np.outer(key, v[t]), z + key
        printed[t] = query @ S / dot(query, z)
    assert near(printed, rfa.rfa(x, w, 1))
    gated = rfa_weights(gate=True)
    assert not near(printed, rfa.rfa(x, gated, 1))
    assert "w_gate" not in dict(mixer_config({"kind": "rfa", "gate": False}).build(D, None).named_modules())
    assert "w_gate.weight" in dict(mixer_config({"kind": "rfa", "gate": True}).build(D, None).named_parameters())


@pytest.mark.slow
def test_000_spade_has_local_attention_at_the_bottom_too() -> None:
    """The text: a state space model in the bottom layer, local attention in the others. The bottom has both."""
    bottom, *others = resolve("paper/spade", ["data.source=stories"]).model.mixers
    assert bottom.kind == "spade"
    assert {other.kind for other in others} == {"attention"}
    torch.manual_seed(0)
    mixer = bottom.build(8, 16).double()
    x = torch.randn(1, 5, 8, dtype=torch.float64)

    def changed(part: torch.nn.Module) -> bool:
        before, weight = mixer(x), next(iter(part.parameters()))
        with torch.no_grad():
            weight.add_(torch.randn_like(weight))
        return not torch.allclose(mixer(x), before)

    inner: dict[str, Tensor] = dict(mixer.named_children())  # type: ignore[arg-type]
    assert changed(inner["near"])
    assert changed(inner["far"])


def test_002_shaws_tables_have_one_number_a_row() -> None:
    """Printed: P^k, P^v in R^{2k+1}. A number added to all channels of a key is one number for the distance."""
    mixer = mixer_config({"kind": "attention", "heads": 1, "position": {"kind": "shaw", "reach": 2}}).build(D, None)
    assert mixer.position.of_keys.weight.shape == mixer.position.of_values.weight.shape == (5, D)
    key, number = RNG.normal(size=D), 0.3
    change = [dot(q, key + number) - dot(q, key) for q in Q]
    assert near(np.array(change), number * Q.sum(1))  # of a query only its sum is asked


def test_002_alibi_penalizes_the_nearest_key() -> None:
    """Printed: q_i K + α [0, -1, …, -(i-1)], for keys in the order of the text: the newest is penalized most."""
    mixer = mixer_config({"kind": "attention", "heads": 1, "position": "alibi"}).build(D, None).double()
    with torch.no_grad():
        mixer.w_qkv.weight.zero_()
    weights = mixer.plots(torch.zeros(1, T, D, dtype=torch.float64))[0].values[-1].detach()
    assert weights.argmax() == T - 1
    printed = np.exp(-(2.0**-8) * np.arange(T))
    assert near(weights.numpy(), printed[::-1] / printed.sum())
    assert not near(weights.numpy(), printed / printed.sum())


@torch.no_grad()
def test_002_blockwise_blocks_are_of_tokens_and_channels() -> None:
    """Printed: n × n numbers in a block of queries. With (L/n) × d each block of the paper is a plain attention."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "blockwise", "heads": 1, "blocks": 3, "permutations": [[1, 2, 0]]})
    layer = mixer.build(D, None, causal=False).double()
    x = torch.randn(1, T, D, dtype=torch.float64)
    q, k, v = (part.chunk(3) for part in layer.w_qkv(x)[0].chunk(3, 1))
    assert q[0].shape == (T // 3, D) != (3, 3)
    blocks = [(q[i] @ k[j].T / math.sqrt(D)).softmax(1) @ v[j] for i, j in enumerate((1, 2, 0))]
    assert near(layer(x)[0].numpy(), layer.w_out(torch.cat(blocks)).numpy())


@torch.no_grad()
def test_002_etc_divides_by_the_keys_of_one_input() -> None:
    """Printed: A^{g2g} = e^a / Σ_{k ≤ n_g} e^a. A global token's softmax is over the long input's keys as well."""
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "etc", "heads": 1, "segment": 2}).build(D, None, causal=False, depth=2).double()
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight)
    mixer.labels_global.zero_()
    x, g = (torch.randn(1, n, D, dtype=torch.float64) for n in (T, T // 2))
    after = mixer.forward_cross_layer(x, None, {"global_2": g})[1]["global_2"]
    q, k, v = mixer.w_long(torch.cat([mixer.norm(g), x], 1))[0].chunk(3, 1)
    z = q[: T // 2] @ k.T / math.sqrt(D)
    of_global, of_long = (z[:, at].softmax(1) @ v[at] for at in (slice(T // 2), slice(T // 2, None)))
    expected, printed, added = (mixer.w_out(y).numpy() for y in (z.softmax(1) @ v, of_global, of_global + of_long))
    actual = (after - g)[0].numpy()
    assert near(actual, expected)
    assert not near(actual, printed)
    assert not near(actual, added)


def test_004_eq_4_and_5_read_themselves_and_the_future() -> None:
    """Printed: a softmax over the whole bucket. With one bucket it is attention without a mask."""
    q, v = Q[None, None], V[None, None]
    k = q / np.linalg.norm(q, axis=-1, keepdims=True)
    one = [torch.tensor(x) for x in (q, k, v)]
    order = by_bucket(torch.zeros(1, 1, 1, T, dtype=torch.long), torch.arange(T)[None])
    ours = bucketed(*one, torch.arange(T)[None], order, Rule(T))[0, 0].numpy()
    printed = attend(*one, pattern=everywhere, scale=1.0)[0, 0].numpy()
    past = [np.array([math.exp(dot(Q[i], k[0, 0, j])) for j in range(i)]) for i in range(1, T)]
    assert near(ours, np.array([V[0], *(a @ V[: len(a)] / a.sum() for a in past)]))
    assert not near(ours, printed)
    changed = one[2].clone()
    changed[0, 0, -1] += 1.0
    moved = attend(one[0], one[1], changed, pattern=everywhere, scale=1.0)[0, 0].numpy()
    assert not near(moved[:-1], printed[:-1])


def test_004_reformer_is_not_logarithmic() -> None:
    """The scores of one round, in chunks of 64, grow with the length."""
    assert [Rule(64).terms(n) / n for n in (1 << 13, 1 << 16)] == pytest.approx([128, 128], rel=0.01)
