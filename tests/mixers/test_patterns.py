"""Mixers that choose a pattern: the keys of each layer and head, global tokens, distant tokens, bad settings."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.layer import Layer
from seqloom.mixers import mixer_config
from seqloom.ops import attention, backends
from seqloom.ops.attention.patterns import Dilated, Neighbors, around, fixed, local, merged, strided

D = 8


def build(kind: str, causal: bool = True, context: int | None = None, **settings: Any) -> Any:
    torch.manual_seed(0)
    return mixer_config({"kind": kind, **settings}).build(D, context, causal).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def of_layer(number: int, depth: int, causal: bool = True, **settings: Any) -> list[Any]:
    mixer = mixer_config(settings).make(Layer(D, None, causal, number, depth))
    return list(mixer.patterns)  # type: ignore[attr-defined, arg-type]


def test_the_three_uses_of_a_factorized_pattern() -> None:
    near, far = strided(4)
    sparse = {"kind": "sparse", "heads": 4, "length": 4}
    assert [of_layer(n, 3, **sparse, use="layers") for n in range(3)] == [[near] * 4, [far] * 4, [near] * 4]
    assert of_layer(1, 3, **sparse, use="merged") == [merged((near, far))] * 4
    assert of_layer(1, 3, **sparse, use="heads") == [near, near, far, far]
    assert of_layer(0, 1, **sparse, summary=2, pattern="fixed")[1:3] == [*fixed(4, 2)]


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
    with backends.recorded() as ran:
        build("longformer", window=4)(draw(1, 300, D))
    assert ran["sparse_attention"] == ["tiles"]


@torch.no_grad()
def test_a_context_ends_every_pattern() -> None:
    mixer, x = build("sparse", context=6, heads=2, length=3), draw(1, 20, D)
    moved = mixer(x.index_fill(1, torch.tensor([5]), 9.0)) - mixer(x)
    assert bool((moved[0, 11:] == 0).all())
    assert bool((moved[0, 8] != 0).any())


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


def test_global_tokens_beyond_the_text() -> None:
    with pytest.raises(ValueError, match="global token 9 is beyond the context of 8 tokens"):
        build("longformer", False, 8, global_tokens=[9])
    with pytest.raises(ValueError, match="global token 9 is beyond the text of 5 tokens"):
        build("longformer", False, global_tokens=[9])(draw(1, 5, D))
    with pytest.raises(ValueError, match="the causal form of longformer has no global tokens"):
        build("longformer", global_tokens=[0])


def test_attention_takes_patterns() -> None:
    names = ["local", "local", "strided", "fixed"]
    mixer = build("attention", per_head=names, window=3, length=4, summary=1)
    assert list(mixer.patterns) == [local(3), local(3), merged(strided(4)), merged(fixed(4, 1))]
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
