"""Attention: torch's own, the options of a layer against their definitions, and its sliding window."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.state import nbytes
from seqloom.mixers import mixer_config
from seqloom.mixers.attention.attention import Attention
from tests.mixers.test_extractors import mixer_of

D = 8


def built(causal: bool = True, dim: int = D, **settings: Any) -> Any:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "attention", "heads": 4, **settings}).build(dim, None, causal).double()
    for parameter in mixer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return mixer


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def defined(mixer: Any, x: Tensor, causal: bool = True) -> Tensor:
    """The equation over one row (T, D), query by query and head by head."""
    H, G, K, T = mixer.heads, mixer.kv_heads, mixer.width, len(x)
    given = x @ mixer.w_qkv.weight.T + (0.0 if mixer.w_qkv.bias is None else mixer.w_qkv.bias)
    if mixer.taps is not None:
        W = len(mixer.taps)
        given = torch.stack([sum(mixer.taps[lag] * given[t - lag] for lag in range(min(t + 1, W))) for t in range(T)])
    q, k, v = (part.view(T, -1, K) for part in given.split([H * K, G * K, G * K], -1))
    y = x.new_zeros(T, H, K)
    for i in range(T):
        for h in range(H):
            g = h * G // H
            positions = range(i + 1 if causal else T)
            a = torch.stack([q[i, h] @ k[j, g] / math.sqrt(K) for j in positions]).softmax(0)
            y[i, h] = sum(a[n] * v[j, g] for n, j in enumerate(positions))
    return y.flatten(1) @ mixer.w_out.weight.T + (0.0 if mixer.w_out.bias is None else mixer.w_out.bias)


OPTIONS: dict[str, dict[str, Any]] = {
    "grouped": {"kv_heads": 2},
    "multi-query": {"kv_heads": 1},
    "biases of queries, keys and values": {"bias": "qkv"},
    "all biases": {"bias": "all", "kv_heads": 2},
    "a convolution": {"kernel": 3, "kv_heads": 2},
    "a convolution that is longer than the text, and biases": {"kernel": 9, "bias": "qkv"},
}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_its_equation(option: str, causal: bool) -> None:
    mixer, x = built(causal, **OPTIONS[option]), draw(2, 7, D)
    torch.testing.assert_close(mixer(x), torch.stack([defined(mixer, row, causal) for row in x]), atol=1e-12, rtol=0)


def test_which_projections_have_biases() -> None:
    for bias, shapes in (("none", []), ("qkv", ["w_qkv.bias"]), ("all", ["w_qkv.bias", "w_out.bias"])):
        assert [name for name, _ in built(bias=bias).named_parameters() if name.endswith("bias")] == shapes


def test_grouped_heads_shrink_the_cache_and_the_price() -> None:
    full, grouped = built(), built(kv_heads=1)
    sizes = [nbytes(mixer.extend(draw(1, 6, D), mixer.start(1))[1]) for mixer in (full, grouped)]
    assert sizes == [2 * 6 * D * 8, 2 * 6 * D * 8 // 4]
    assert (full.cost(6).state, grouped.cost(6).state) == (2 * 6 * D, 2 * 6 * D // 4)
    assert full.cost(6).params - grouped.cost(6).params == 2 * D * (D - D // 4)
    assert full.cost(6).mul - grouped.cost(6).mul == 6 * 2 * D * (D - D // 4)


def test_equal_groups_are_plain_heads() -> None:
    """With each head of keys and values copied for its group, grouped heads are plain ones."""
    grouped, plain, x = built(kv_heads=2), built(), draw(1, 5, D)
    q, k, v = grouped.w_qkv.weight.detach().split(grouped.sizes)
    copied = [w.unflatten(0, (2, -1)).repeat_interleave(2, 0).flatten(0, 1) for w in (k, v)]
    with torch.no_grad():
        plain.w_qkv.weight.copy_(torch.cat([q, *copied]))
        plain.w_out.weight.copy_(grouped.w_out.weight)
    torch.testing.assert_close(plain(x), grouped(x), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kv_heads": 3}, "heads 4 are not divisible by kv_heads 3: choose from 1, 2, 4"),
        ({"kv_heads": 0}, "kv_heads: input should be greater than or equal to 1, not 0"),
        ({"window": 0}, "window: input should be greater than or equal to 1, not 0"),
        ({"bias": "some"}, "bias: input should be 'none', 'qkv', 'out' or 'all', not 'some'"),
    ],
)
def test_arguments_of_attention_that_do_not_fit(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config({"kind": "attention", "heads": 4, **settings})


def build(window: int | None, context: int | None, heads: int = 2) -> Attention:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "attention", "heads": heads, "window": window}).build(D, context).double()
    assert isinstance(mixer, Attention)
    return mixer


def defined_window(mixer: Attention, x: Tensor, window: int) -> Tensor:
    """Query by query over one row (T, D)."""
    q, k, v = mixer.w_qkv(x).unflatten(-1, (3, mixer.heads, -1)).unbind(-3)
    rows = []
    for i in range(len(x)):
        heads = []
        for h in range(mixer.heads):
            positions = range(max(0, i - window + 1), i + 1)
            e = torch.stack([torch.exp(q[i, h] @ k[j, h] / math.sqrt(q.shape[-1])) for j in positions])
            heads.append(sum(a * v[j, h] for a, j in zip(e / e.sum(), positions, strict=True)))
        rows.append(torch.cat(heads))
    return mixer.w_out(torch.stack(rows))


@torch.no_grad()
@pytest.mark.parametrize(("window", "context"), [(1, 9), (3, 9), (3, None), (9, 4), (None, 4)])
def test_the_definition(window: int | None, context: int | None) -> None:
    mixer, x = build(window, context), draw(2, 14, D)
    back = min(n for n in (window, context) if n is not None)
    for row in range(2):
        torch.testing.assert_close(mixer(x)[row], defined_window(mixer, x[row], back), rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("T", [2, 3, 17])
def test_it_is_a_smaller_context_in_a_state_of_one_size(T: int) -> None:
    mixer, other, x = build(3, 100), build(None, 3), draw(2, T, D)
    other.load_state_dict(mixer.state_dict())
    torch.testing.assert_close(mixer(x), other(x), rtol=0, atol=1e-12)
    for per in ("sequence", "token"):
        one, two = mixer.cost(T, per), other.cost(T, per)
        assert (one.mul, one.add, one.div, one.exp, one.path) == (two.mul, two.add, two.div, two.exp, two.path)
    assert torch.equal(mixer.plots(x)[0].values, other.plots(x)[0].values)
    state = mixer.start(2, capacity=50)
    assert mixer.traits.state == "window"
    assert other.traits.state == Attention.traits.state == "grows"
    for position in range(T):
        y, state = mixer.step(x[:, position], state, reuse=position % 2 == 0)
        torch.testing.assert_close(y, other(x)[:, position], rtol=0, atol=1e-12)
        assert nbytes(state) == nbytes(mixer.trim(state)) == 2 * 2 * 3 * D * 8 == 2 * 8 * mixer.cost(position + 1).state


@torch.no_grad()
def test_rows_of_different_lengths() -> None:
    mixer, x = build(3, 9), draw(3, 12, D)
    keep = torch.arange(6) < torch.tensor([[6], [1], [0]])
    _, state = mixer.extend(x[:, :6], mixer.start(3), keep)
    y, state = mixer.extend(x[:, 6:11], state)
    z, _ = mixer.step(x[:, 11], state)
    for row, read in enumerate((6, 1, 0)):
        expected = mixer(torch.cat([x[row, :read], x[row, 6:]])[None])[0, -6:]
        torch.testing.assert_close(torch.cat([y[row], z[row, None]]), expected, rtol=0, atol=1e-12)


def test_the_window_is_in_the_settings_only_where_it_is_set() -> None:
    assert mixer_config({"kind": "attention"}).model_dump() == {"kind": "attention", "heads": 4}
    assert mixer_config({"kind": "attention", "window": 5}).model_dump()["window"] == 5
    with pytest.raises(ValueError, match="window"):
        mixer_config({"kind": "attention", "window": 0})


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_attention_is_torchs(heads: int) -> None:
    """The same numbers and gradients as torch.nn.MultiheadAttention without biases."""
    mixer = mixer_config({"kind": "attention", "heads": heads}).build(dim=D, context=None).double()
    peer = nn.MultiheadAttention(D, heads, bias=False, batch_first=True).double()
    own = dict(mixer.named_parameters())
    with torch.no_grad():
        peer.in_proj_weight.copy_(own["w_qkv.weight"])
        peer.out_proj.weight.copy_(own["w_out.weight"])
    x = torch.randn(2, 7, D, dtype=torch.float64)
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    grads = []
    for read in (mixer, lambda x: peer(x, x, x, attn_mask=hidden, need_weights=False)[0]):
        tokens = x.clone().requires_grad_()
        y = read(tokens)
        y.square().sum().backward()
        grads.append([y, tokens.grad])
    grads[0] += [own["w_qkv.weight"].grad, own["w_out.weight"].grad]
    grads[1] += [peer.in_proj_weight.grad, peer.out_proj.weight.grad]
    for actual, expected in zip(*grads, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [1, 3, 9])
def test_attention_with_a_context_looks_back_so_far(window: int) -> None:
    """Each output is the last output of attention over the last `context` tokens alone."""
    near, all_of_it = mixer_of("attention, 2 heads", window), mixer_of("attention, 2 heads", None)
    x = torch.randn(1, 8, D, dtype=torch.float64)
    y = near(x)
    for i in range(8):
        expected = all_of_it(x[:, max(0, i + 1 - window) : i + 1])[:, -1]
        torch.testing.assert_close(y[:, i], expected, rtol=0, atol=1e-12)
