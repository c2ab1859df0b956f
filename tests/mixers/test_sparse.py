"""Sparse attention: the three uses of a factorized pattern, and its end at a context."""

import torch

from seqloom.ops.attention.patterns import fixed_parts, merge_parts, strided_parts
from tests.mixers.patterned import D, build, draw, of_layer


def test_the_three_uses_of_a_factorized_pattern() -> None:
    near, far = strided_parts(4)
    sparse = {"kind": "sparse", "heads": 4, "length": 4}
    assert [of_layer(n, 3, **sparse, use="layers") for n in range(3)] == [[near] * 4, [far] * 4, [near] * 4]
    assert of_layer(1, 3, **sparse, use="merged") == [merge_parts((near, far))] * 4
    assert of_layer(1, 3, **sparse, use="heads") == [near, near, far, far]
    assert of_layer(0, 1, **sparse, summary=2, pattern="fixed")[1:3] == [*fixed_parts(4, 2)]


@torch.no_grad()
def test_a_context_ends_every_pattern() -> None:
    mixer, x = build("sparse", context=6, heads=2, length=3), draw(1, 20, D)
    moved = mixer(x.index_fill(1, torch.tensor([5]), 9.0)) - mixer(x)
    assert bool((moved[0, 11:] == 0).all())
    assert bool((moved[0, 8] != 0).any())
