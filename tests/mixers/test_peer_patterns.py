"""Longformer and Big Bird with copied weights, in float64: outputs and gradients of transformers' attention."""

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.mixers import mixer_config

transformers = pytest.importorskip("transformers")
D, H = 8, 2


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def same(ours: nn.Module, theirs: Any, x: Tensor, weights: list[tuple[Tensor, Tensor]], bound: float) -> None:
    """Outputs, and gradients of the input and of each (ours, theirs) pair of weights, which may be a part of one."""
    dy = draw(*x.shape).flip(1)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    y, expected = ours(inputs[0]), theirs(inputs[1])
    torch.testing.assert_close(y, expected, rtol=0, atol=bound)
    (y * dy).sum().backward()
    (expected * dy).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=0, atol=bound)
    for one, other in weights:
        torch.testing.assert_close(one.grad, torch.cat([part.weight.grad for part in other]), rtol=0, atol=bound)


def copy(ours: nn.Module, parts: list[nn.Linear]) -> None:
    """Their query, key and value, without biases, into one projection of ours."""
    for part in parts:
        nn.init.zeros_(part.bias)
    with torch.no_grad():
        ours.weight.copy_(torch.cat([part.weight for part in parts]))


def first_of(mixer: nn.Module) -> nn.Module:
    """The mixer whose output projection is the identity: their self-attention ends before it."""
    nn.init.eye_(mixer.w_out.weight)
    return mixer


@pytest.mark.parametrize("tokens", [[], [0, 13]])
def test_longformer(tokens: list[int]) -> None:
    """2e-6, since their softmax is in float32."""
    module = importlib.import_module("transformers.models.longformer.modeling_longformer")
    torch.manual_seed(0)
    config = transformers.LongformerConfig(
        hidden_size=D,
        num_attention_heads=H,
        attention_window=[8],
        attention_probs_dropout_prob=0.0,
        num_hidden_layers=1,
    )
    theirs = module.LongformerSelfAttention(config, 0).double()
    settings = {"kind": "longformer", "heads": H, "window": 8, "global_tokens": tokens}
    ours = first_of(mixer_config(settings).build(D, None, causal=False).double())
    pairs = [(ours.w_qkv, [theirs.query, theirs.key, theirs.value])]
    if tokens:
        pairs.append((ours.w_global, [theirs.query_global, theirs.key_global, theirs.value_global]))
    for one, parts in pairs:
        copy(one, parts)
    x = draw(2, 24, D)
    flags = torch.zeros(2, 24, dtype=torch.bool)
    flags[:, tokens] = True

    def run(x: Tensor) -> Tensor:
        y = theirs(
            *(x, torch.where(flags, 10000.0, 0.0).double(), torch.zeros_like(flags), flags),
            is_global_attn=bool(tokens),
        )
        return y[0]

    same(ours, run, x, [(one.weight, parts) for one, parts in pairs], 2e-6)


def test_bigbird(monkeypatch: pytest.MonkeyPatch) -> None:
    """In train mode, with the random blocks that we draw."""
    module = importlib.import_module("transformers.models.big_bird.modeling_big_bird")
    torch.manual_seed(0)
    config = transformers.BigBirdConfig(
        hidden_size=D, num_attention_heads=H, block_size=2, num_random_blocks=2, attention_probs_dropout_prob=0.0
    )
    theirs = module.BigBirdBlockSparseAttention(config, seed=0).double().train()
    settings = {"kind": "bigbird", "heads": H, "block": 2, "window": 3, "random": 2}
    ours = first_of(mixer_config(settings).build(D, None, causal=False).double())
    copy(ours.w_qkv, [theirs.query, theirs.key, theirs.value])
    T = 26
    n = T // 2
    rows = torch.arange(1, n - 1)
    drawn = [torch.stack(pattern.of(T).drawn(rows), 1).numpy() for pattern in ours.patterns]
    monkeypatch.setattr(theirs, "_bigbird_block_rand_mask_with_head", lambda **given: drawn)
    monkeypatch.setattr(theirs, "_get_rand_attn_plan", lambda *given: ([T], [2]))
    ones, blocked = torch.ones(2, T, dtype=torch.float64), torch.ones(2, n, 2, dtype=torch.float64)
    band = torch.ones(2, 1, n - 4, 2, 6, dtype=torch.float64)

    def run(x: Tensor) -> Tensor:
        return theirs(x, band, ones[:, None, :, None], ones[:, None, None], blocked, blocked)[0]

    same(ours, run, draw(2, T, D), [(ours.w_qkv.weight, [theirs.query, theirs.key, theirs.value])], 1e-10)


def test_bigbird_whose_window_is_the_text_is_full_attention() -> None:
    module = importlib.import_module("transformers.models.big_bird.modeling_big_bird")
    torch.manual_seed(0)
    config = transformers.BigBirdConfig(hidden_size=D, num_attention_heads=H, attention_probs_dropout_prob=0.0)
    theirs = module.BigBirdSelfAttention(config).double()
    settings = {"kind": "bigbird", "heads": H, "block": 2, "window": 21, "random": 0}
    ours = first_of(mixer_config(settings).build(D, None, causal=False).double())
    copy(ours.w_qkv, [theirs.query, theirs.key, theirs.value])
    pairs = [(ours.w_qkv.weight, [theirs.query, theirs.key, theirs.value])]
    same(ours, lambda x: theirs(x)[0], draw(2, 20, D), pairs, 1e-10)
