"""Big Bird: transformers' layer with copied weights, in float64."""

import importlib

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from tests.mixers.patterned import D, H, copy, draw, first_of, same


def test_bigbird_is_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """In train mode, with the random blocks that we draw."""
    transformers = pytest.importorskip("transformers")
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
    drawn = [torch.stack(pattern.of(T).draw_blocks(rows), 1).numpy() for pattern in ours.patterns]
    monkeypatch.setattr(theirs, "_bigbird_block_rand_mask_with_head", lambda **given: drawn)
    monkeypatch.setattr(theirs, "_get_rand_attn_plan", lambda *given: ([T], [2]))
    ones, blocked = torch.ones(2, T, dtype=torch.float64), torch.ones(2, n, 2, dtype=torch.float64)
    band = torch.ones(2, 1, n - 4, 2, 6, dtype=torch.float64)

    def run(x: Tensor) -> Tensor:
        return theirs(x, band, ones[:, None, :, None], ones[:, None, None], blocked, blocked)[0]

    same(ours, run, draw(2, T, D), [(ours.w_qkv.weight, [theirs.query, theirs.key, theirs.value])], 1e-10)


def test_bigbird_whose_window_is_the_text_is_full_attention() -> None:
    transformers = pytest.importorskip("transformers")
    module = importlib.import_module("transformers.models.big_bird.modeling_big_bird")
    torch.manual_seed(0)
    config = transformers.BigBirdConfig(hidden_size=D, num_attention_heads=H, attention_probs_dropout_prob=0.0)
    theirs = module.BigBirdSelfAttention(config).double()
    settings = {"kind": "bigbird", "heads": H, "block": 2, "window": 21, "random": 0}
    ours = first_of(mixer_config(settings).build(D, None, causal=False).double())
    copy(ours.w_qkv, [theirs.query, theirs.key, theirs.value])
    pairs = [(ours.w_qkv.weight, [theirs.query, theirs.key, theirs.value])]
    same(ours, lambda x: theirs(x)[0], draw(2, 20, D), pairs, 1e-10)
