"""Mixers that choose a pattern: the keys of each layer and head, global tokens, distant tokens, bad settings."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.ops import attention, backends
from seqloom.ops.attention.patterns import Neighbors, fixed_parts, local, merge_parts, strided_parts
from tests.mixers.patterned import D, build, draw


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "settings", "read"),
    [
        ("longformer", {"window": 4}, (4, 4)),
        ("image", {"block": 8, "memory": 3}, (4, 11)),
        ("sparse", {"length": 16, "use": "layers"}, (17, 17)),
        ("bigbird", {"block": 4, "window": 3, "random": 1}, (13, 16)),
    ],
)
def test_a_token_reads_the_keys_that_its_pattern_looks_at(
    kind: str, settings: dict[str, Any], read: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    mixer, seen = build(kind, **settings), []

    def noted(q: Tensor, k: Tensor, *given: Any, **how: Any) -> Tensor:
        seen.append(k.shape[2])
        return attention.attend(q, k, *given, **how)

    monkeypatch.setattr("seqloom.mixers.patterned.attend", noted)
    _, state = mixer.extend(draw(1, 600, D), mixer.start(1))
    seen.clear()
    for _ in range(9):
        _, state = mixer.step(draw(1, D), state)
    assert (min(seen), max(seen)) == read


def test_long_texts_are_computed_in_tiles() -> None:
    with backends.record_backends() as ran:
        build("longformer", window=4)(draw(1, 300, D))
    assert ran["sparse_attention"] == ["tiles"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "image", "dimensions": 2}, "2-D pattern needs the tokens of a row of the picture: set width"),
        ({"kind": "attention", "per_head": ["all", "strided"]}, "per_head covers 2 of 4 heads: list one for each head"),
        ({"kind": "attention", "pattern": "local"}, "the local pattern needs a window"),
        ({"kind": "longformer", "window": 0}, "window"),
        ({"kind": "longformer", "dilated_heads": [4]}, "there is no head 4 to dilate: heads are 0 to 3"),
        ({"kind": "longformer", "global_tokens": [-1]}, "global token -1 is before the text"),
        ({"kind": "sparse", "pattern": "fixed", "length": 4, "summary": 5}, "summary 5 is longer than a segment"),
        ({"kind": "sparse", "heads": 1}, "one head cannot have both parts"),
        ({"kind": "blockwise", "heads": 2, "permutations": [[0, 1]]}, "permutations cover 1 of 2 heads"),
        ({"kind": "blockwise", "heads": 1, "permutations": [[0, 0]]}, "is no permutation of 2 blocks"),
        ({"kind": "bigbird", "window": 2}, "a window of 2 blocks has no middle: set window to 3"),
    ],
)
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config(settings)


def test_attention_takes_patterns() -> None:
    names = ["local", "local", "strided", "fixed"]
    mixer = build("attention", per_head=names, window=3, length=4, summary=1)
    assert list(mixer.patterns) == [local(3), local(3), merge_parts(strided_parts(4)), merge_parts(fixed_parts(4, 1))]
    x, other = draw(2, 20, D), build("attention", window=3)
    torch.testing.assert_close(build("attention", pattern="local", window=3)(x), other(x), rtol=0, atol=1e-12)
    both = build("attention", False, pattern="local", window=3)(x)
    torch.testing.assert_close(both, build("attention", False, window=3)(x), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="the strided pattern is causal: it has no bidirectional form"):
        build("attention", False, pattern="strided")


def test_no_block_has_to_fit() -> None:
    for kind, settings in (("image", {"block": 7}), ("blockwise", {"blocks": 3}), ("bigbird", {"block": 5})):
        mixer = build(kind, kind != "blockwise", **settings)
        assert mixer(draw(1, 11, D)).shape == (1, 11, D)
    assert Neighbors(None).reach is None
