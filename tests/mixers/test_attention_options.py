"""Attention's options against the equation, number by number; settings that do not fit raise one line."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.state import nbytes
from seqloom.mixers import mixer_config

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
        ({"bias": "some"}, "bias: input should be 'none', 'qkv' or 'all', not 'some'"),
    ],
)
def test_arguments_that_do_not_fit(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config({"kind": "attention", "heads": 4, **settings})
