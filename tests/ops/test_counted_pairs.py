"""The visible pairs of a pattern in closed form are those of its predicate, for every length."""

import pytest
import torch

from seqloom.ops.attention.patterns import (
    Columns,
    Dilated,
    Neighbors,
    Pattern,
    Permuted,
    RandomBlocks,
    Raster,
    Union,
    Within,
    around,
    blocks_before,
    fixed_parts,
    local,
    merge_parts,
    segment,
    strided_parts,
)
from seqloom.ops.attention.plan import keys

MOST = 300
NEAR, GAPS = around(2), Dilated(around(3), 2)
PATTERNS: dict[str, Pattern] = {
    "all": Neighbors(None),
    "all, on both sides": Neighbors(None, causal=False),
    "local": local(5),
    "around": around(40),
    "blocks on both sides": Neighbors(5, 9, block=4, causal=False),
    "blocks alone": Neighbors(0, 0, block=7, causal=False),
    "image": blocks_before(4, 3),
    "long memory": blocks_before(16, 50),
    "segment": segment(7),
    "dilated": Dilated(local(3), 3),
    "dilated on both sides": Dilated(around(2), 5),
    "dilated blocks": Dilated(Neighbors(3, 2, block=2, causal=False), 3),
    "dilated, not itself": Dilated(Neighbors(None), 4, least=5),
    "strided": strided_parts(4)[1],
    "strided, merged": merge_parts(strided_parts(4)),
    "strided by 1": merge_parts(strided_parts(1)),
    "fixed": fixed_parts(6, 2)[1],
    "fixed, all": fixed_parts(5, 5)[1],
    "fixed, merged": merge_parts(fixed_parts(6, 2)),
    "columns": Columns((0, 9, 200)),
    "columns on both sides": Columns((0, 9, 200), causal=False),
    "longformer": Union((NEAR, Columns((3, 20, 299), causal=False, without=NEAR))),
    "longformer, dilated": Union((GAPS, Columns((0, 7), causal=False, without=GAPS))),
    "picture": Raster(5, 2, 3, 1, 2),
    "wide halo": Raster(6, 2, 2, 3, 5),
    "rows alone": Raster(7, 1, 4, 0, 0),
    "blockwise": Permuted((1, 2, 0)),
    "own blocks": Permuted((0, 1)),
    "one block": Permuted((0,)),
    "five blocks": Permuted((1, 2, 3, 4, 0)),
    "bigbird": RandomBlocks(3, 1, 2, 1, 1, 0, causal=False),
    "bigbird, wide": RandomBlocks(4, 9, 3, 0, 2, 1, causal=False),
    "bigbird without ends": RandomBlocks(4, 1, 3, 2, 0, 1, causal=False),
    "bigbird, causal": RandomBlocks(2, 1, 2, 1, 0, 5),
    "bigbird, causal, without random": RandomBlocks(5, 2, 0, 0, 0, 5),
    "bigbird, causal, many": RandomBlocks(3, 0, 7, 3, 0, 2),
    "within": Within(merge_parts(strided_parts(4)), 9),
}
COUNTED_ONLY = {"picture", "wide halo", "rows alone"}
"""those that have no formula for some lengths"""
WITHIN = (1, 2, 5, 9, 16, 33, 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_pairs_are_those_of_the_predicate(name: str) -> None:
    pattern = PATTERNS[name]
    time = torch.arange(MOST)
    apart = (time[:, None] - time).abs()
    formulas = 0
    for T in range(1, MOST + 1):
        visible = pattern.of(T)(time[:T, None], time[None, :T])
        for within in (WITHIN[T % 7], WITHIN[(T + 3) % 7], T):
            seen = visible & (apart[:T, :T] < within)
            pairs, seeing = pattern.pairs(T, within), pattern.seeing(T, within)
            assert pairs is None or pairs == int(seen.sum()), (T, within)
            assert seeing is None or seeing == int(seen.any(1).sum()), (T, within)
            assert pairs is not None or name in COUNTED_ONLY, (T, within)
            formulas += pairs is not None
    assert formulas >= MOST // 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, pattern in PATTERNS.items() if pattern.causal])
def test_keys_of_a_token_are_those_of_the_predicate(name: str) -> None:
    for context in (7, 40, MOST):
        pattern = Within(PATTERNS[name], context)
        for t in range(0, MOST, 3):
            then = torch.arange(t + 1)
            assert keys(pattern, t) == int(pattern(torch.tensor(t), then).sum()), (t, context)
