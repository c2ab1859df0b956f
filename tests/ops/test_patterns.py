"""Sparse patterns: tiles, keys and pairs against predicates; drawings by hand; attention over tiles."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from seqloom.ops import attention, backends
from seqloom.ops.attention import attend as dense
from seqloom.ops.attention import sparse
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
from seqloom.ops.attention.plan import plan, terms

T = 24
NEAR = around(2)
PATTERNS: dict[str, Pattern] = {
    "all": Neighbors(None),
    "all, on both sides": Neighbors(None, causal=False),
    "local": local(5),
    "around": NEAR,
    "dilated": Dilated(local(3), 3),
    "dilated on both sides": Dilated(around(2), 2),
    "image": blocks_before(4, 3),
    "picture": Raster(5, 2, 3, 1, 2),
    "wide halo": Raster(6, 2, 2, 3, 5),
    "segment": segment(7),
    "strided": strided_parts(4)[1],
    "strided, merged": merge_parts(strided_parts(4)),
    "fixed": fixed_parts(6, 2)[1],
    "fixed, merged": merge_parts(fixed_parts(6, 2)),
    "columns": Columns((0, 9)),
    "longformer": Union((NEAR, Columns((3, 20), causal=False, without=NEAR))),
    "blockwise": Permuted((1, 2, 0)),
    "five blocks of 24": Permuted((1, 2, 3, 4, 0)),
    "bigbird": RandomBlocks(3, 1, 2, 1, 1, 0, causal=False),
    "bigbird, causal": RandomBlocks(2, 1, 2, 1, 0, 5),
    "within": Within(merge_parts(strided_parts(4)), 9),
}
every_pattern = pytest.mark.parametrize("name", PATTERNS)


@pytest.fixture(params=[8, 64])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Blocks of this many tokens, and few tiles at a time."""
    monkeypatch.setattr("seqloom.ops.attention.tiles.SIZE", request.param)
    monkeypatch.setattr("seqloom.ops.attention.portable.SCORES", 200)
    plan.cache_clear()
    yield request.param
    plan.cache_clear()


def mask(pattern: Pattern, n: int) -> Tensor:
    time = torch.arange(n)
    return pattern.of(n)(time[:, None], time[None])


@every_pattern
def test_whether_a_later_token_is_seen(name: str) -> None:
    pattern = PATTERNS[name]
    sees = any(bool(mask(pattern, n).triu(1).any()) for n in (2, 7, T))
    assert pattern.causal == (not sees)


@pytest.mark.sample(5)
@every_pattern
@pytest.mark.parametrize("n", [1, 7, T])
@pytest.mark.usefixtures("size")
def test_tiles_are_the_predicate(name: str, n: int) -> None:
    """Each pair in exactly one tile; none beyond the text."""
    pattern = PATTERNS[name]
    counted = torch.zeros(n, n, dtype=torch.long)
    for part in plan(pattern.of(n), n):
        for row, (blocks, masks) in enumerate(zip(part.blocks, part.masks, strict=True)):
            for block, number in zip(blocks.tolist(), masks.tolist(), strict=True):
                if block >= 0:
                    i, j = torch.nonzero(part.table[number]).T
                    counted[part.queries[row, i], part.keys[block, j]] += 1
    assert torch.equal(counted, mask(pattern, n).long())
    assert terms(pattern, n) == (int(counted.any(1).sum()), int(counted.sum()))


@every_pattern
def test_keys_are_the_last_row(name: str) -> None:
    pattern = PATTERNS[name]
    if not pattern.causal:
        assert not torch.equal(mask(pattern, T), mask(pattern, T).tril())
        return
    assert torch.equal(mask(pattern, T), mask(pattern, T).tril())
    for t in range(T):
        expected = torch.nonzero(mask(pattern, t + 1)[t])[:, 0]
        assert pattern.keys(t).tolist() == expected.tolist()
        assert pattern.reach is None or bool((t - expected < pattern.reach).all())


@pytest.mark.slow
@every_pattern
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.usefixtures("size")
def test_attention_over_tiles(name: str, padded: bool) -> None:
    """Outputs and gradients against a dense mask, also where rows are of different lengths."""
    pattern, lengths = PATTERNS[name], torch.tensor([T, 11]) if padded else None
    generator = torch.Generator().manual_seed(0)
    q, k, v, dy = (torch.randn(2, 2, T, 8, generator=generator, dtype=torch.float64) for _ in range(4))
    expected = _rows(q, k, v, dy, pattern, [T, 11] if padded else [T, T])
    for backend in sparse.OP.backends:
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        with backends.use(sparse_attention=backend):
            if not sparse.OP.backends[backend].fits(q, v, pattern, lengths):
                with pytest.raises(ValueError, match=f"backend '{backend}' of sparse_attention cannot do this"):
                    sparse.attend(*leaves, [pattern], lengths)
                continue
            y = sparse.attend(*leaves, [pattern, pattern], lengths)
        if padded:
            y = torch.where((torch.arange(T) < lengths[:, None])[:, None, :, None], y, 0.0)
        gradients = [y, *torch.autograd.grad((y * dy).sum(), leaves)]
        for one, other in zip(gradients, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def _rows(q: Tensor, k: Tensor, v: Tensor, dy: Tensor, pattern: Pattern, lengths: list[int]) -> list[Tensor]:
    """Row by row through the dense op, 0 behind each row."""
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    rows = []
    for row, n in enumerate(lengths):
        one = (x[row : row + 1, :, :n] for x in leaves)
        rows.append(torch.nn.functional.pad(dense(*one, pattern=pattern.of(n)), (0, 0, 0, T - n)))
    y = torch.cat(rows)
    return [y, *torch.autograd.grad((y * dy).sum(), leaves)]


def drawn(pattern: Pattern, n: int) -> list[str]:
    return ["".join("x" if looked else "." for looked in row) for row in mask(pattern, n).tolist()]


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        (strided_parts(2)[0], "x.... xx... xxx.. .xxx. ..xxx"),
        (strided_parts(2)[1], "x.... .x... x.x.. .x.x. x.x.x"),
        (fixed_parts(2, 1)[0], "x.... xx... ..x.. ..xx. ....x"),
        (fixed_parts(2, 1)[1], "..... .x... .x... .x.x. .x.x."),
        (blocks_before(2, 1), "x.... xx... .xx.. .xxx. ...xx"),
        (Raster(4, 1, 2, 1, 1), "x....... xx...... .xx..... .xxx.... xxx.x... xxx.xx.. .xxx.xx. .xxx.xxx"),
        (Permuted((1, 0)), "...xx ...xx ...xx xxx.. xxx.."),
    ],
)
def test_patterns_by_hand(pattern: Pattern, rows: str) -> None:
    assert drawn(pattern, len(rows.split())) == rows.split()


def test_blocks_of_a_shorter_row_have_no_padding() -> None:
    time = torch.arange(5)
    seen = Permuted((1, 0)).of(3)(time[:3, None], time[None])
    assert [[j for j in range(5) if row[j]] for row in seen.tolist()] == [[2], [2], [0, 1]]


@pytest.mark.parametrize("parts", [strided_parts(4), strided_parts(5), fixed_parts(4, 1), fixed_parts(6, 3)])
def test_p_steps_connect_every_pair(parts: tuple[Pattern, Pattern]) -> None:
    """From every i a step of each of the p = 2 parts, or one of them, leads to every j ≤ i, and no single part does."""
    near, far = (mask(part, T).double() for part in parts)
    everything = torch.ones(T, T).tril().bool()
    assert torch.equal((near + far + near @ far + far @ near) > 0, everything)
    assert not torch.equal((near + far) > 0, everything)


def test_random_blocks_are_other_ones_for_each_seed_and_do_not_change_as_the_text_grows() -> None:
    patterns = [RandomBlocks(2, 1, 2, 1, 0, seed) for seed in range(20)]
    assert len({tuple(drawn(pattern, 60)) for pattern in patterns}) == 20
    assert all(torch.equal(mask(pattern, 60)[:30, :30], mask(pattern, 30)) for pattern in patterns)
    chosen = torch.stack([patterns[0].draw_blocks(torch.arange(10, 500))[n] for n in range(2)])
    assert bool(((chosen >= 1) & (chosen < torch.arange(10, 500) - 1)).all())
    assert 0.4 < float((chosen / torch.arange(10, 500)).mean()) < 0.6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: local(0), "window is 1 or more tokens, not 0"),
        (lambda: strided_parts(0), "stride is 1 or more tokens, not 0"),
        (lambda: fixed_parts(4, 5), "the summary of a segment of 4 tokens has 1 to 4 of them, not 5"),
    ],
)
def test_bad_sizes(make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("argument", [0, 1, 2])
@pytest.mark.parametrize("wrong", [None, "x", [[1.0]]], ids=repr)
def test_what_is_no_tensor(argument: int, wrong: object) -> None:
    given: list[object] = [torch.randn(1, 1, 6, 4) for _ in range(3)]
    given[argument] = wrong
    with pytest.raises(TypeError, match=f"sparse_attention: {'qkv'[argument]} must be a tensor, not "):
        sparse.attend(*given, [local(3)])  # type: ignore[arg-type]


def test_tiles_have_no_second_derivative() -> None:
    q = torch.randn(1, 1, 6, 4, requires_grad=True)
    with (
        backends.use(sparse_attention="tiles"),
        pytest.raises(RuntimeError, match="not implemented: force 'masked'"),
    ):
        torch.autograd.grad(sparse.attend(q, q, q, [local(2)]).sum(), q, create_graph=True)


@pytest.mark.parametrize("T", [1, 2, 5, 6, 7, 12])
@pytest.mark.parametrize("permutation", [(1, 0), (0, 1), (1, 2, 0)])
def test_pairs_between_permuted_blocks_are_counted_without_tiles(permutation: tuple[int, ...], T: int) -> None:
    pattern = Permuted(permutation).of(T)
    times = torch.arange(T)
    mask = pattern(times[:, None], times[None])
    assert (pattern.seeing(T, T), pattern.pairs(T, T)) == (int(mask.any(1).sum()), int(mask.sum()))


def test_a_query_that_looks_at_nothing_has_no_weights() -> None:
    q = torch.randn(1, 1, 6, 4, generator=torch.Generator().manual_seed(0))
    a = attention.weights(q, q, pattern=fixed_parts(3, 1)[1])[0, 0]
    assert bool((a[:2] == 0).all())
    torch.testing.assert_close(a[2:].sum(1), torch.ones(4))
