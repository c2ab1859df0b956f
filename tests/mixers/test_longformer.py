"""Longformer: transformers' layer with copied weights, windows that grow with depth, and global tokens."""

import importlib

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.ops.attention.patterns import Dilated, around, local
from tests.mixers.patterned import D, H, build, copy, draw, first_of, of_layer, same


@pytest.mark.parametrize("tokens", [[], [0, 13]])
def test_longformer_is_transformers(tokens: list[int]) -> None:
    """2e-6, since their softmax is in float32."""
    transformers = pytest.importorskip("transformers")
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


def test_windows_of_longformer_grow_with_depth_and_upper_heads_are_dilated() -> None:
    settings = {"kind": "longformer", "heads": 2, "window": 32, "first_window": 4, "dilation": 3, "dilated_heads": [1]}
    assert [of_layer(n, 4, **settings) for n in range(4)] == [
        [local(4), local(4)],
        [local(8), local(8)],
        [local(16), Dilated(local(16), 3)],
        [local(32), Dilated(local(32), 3)],
    ]
    assert of_layer(0, 4, causal=False, **settings) == [around(2), around(2)]


@torch.no_grad()
def test_global_tokens_look_at_all_real_tokens_through_their_own_projections() -> None:
    mixer, x = build("longformer", False, heads=2, window=2, global_tokens=[1, 4]), draw(2, 9, D)
    keep = torch.tensor([[True] * 9, [True, False, True, True, True, False, True, True, False]])
    y = mixer(x, keep)
    for row in range(2):
        alone = x[row, keep[row]][None]
        torch.testing.assert_close(y[row, keep[row]], mixer(alone)[0], rtol=0, atol=1e-12)
        q, k, v = mixer.w_global(alone[0]).view(-1, 3, 2, 4).unbind(1)
        token = torch.stack([(q[4, h] @ k[:, h].T / 2).softmax(-1) @ v[:, h] for h in range(2)]).flatten()
        torch.testing.assert_close(mixer(alone)[0, 4], mixer.w_out(token), rtol=0, atol=1e-12)
    others = [i for i in range(9) if i not in (1, 4)]
    moved = mixer(x[:1].index_fill(1, torch.tensor([4]), 1.0))[0] - mixer(x[:1])[0]
    assert bool((moved[others].abs().amax(1) > 1e-6).all())  # all look at a global token


def test_global_tokens_beyond_the_text() -> None:
    with pytest.raises(ValueError, match="global token 9 is beyond the context of 8 tokens"):
        build("longformer", False, 8, global_tokens=[9])
    with pytest.raises(ValueError, match="global token 9 is beyond the text of 5 tokens"):
        build("longformer", False, global_tokens=[9])(draw(1, 5, D))
    with pytest.raises(ValueError, match="the causal form of longformer has no global tokens"):
        build("longformer", global_tokens=[0])
