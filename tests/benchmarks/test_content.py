"""benchmarks/content.py times the layer of `transformers` next to ours, with the same sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch


def test_the_public_layer_is_of_our_sizes(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    content = script("content")
    theirs, ours = content.PublicReformer(128), content.build(content.CONTENT["reformer"], 128)
    x = torch.randn(1, 128, content.DIM)
    assert theirs(x).shape == ours(x).shape
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())
    config = theirs.attention
    assert (config.num_hashes, config.chunk_length) == (ours.rounds, ours.rule.chunk)
    assert config.num_buckets == ours.count

    def compared(runs: dict[str, Any], peer: str, rounds: int) -> dict[str, Any]:
        assert runs[content.PEER]()[0].shape == x.shape
        return {"ratio_median_quartiles": {name: [0.4] for name in runs}}

    monkeypatch.setattr(content, "compare", compared)
    monkeypatch.setattr(content, "T", 128)
    assert all(content.against_attention(1)["met"].values())
