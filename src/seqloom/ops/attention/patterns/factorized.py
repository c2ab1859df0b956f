"""The Sparse Transformer's patterns: two parts that together connect all tokens, as two patterns or as their union."""

from dataclasses import replace

from seqloom.ops.attention.patterns.columns import Summary
from seqloom.ops.attention.patterns.compound import Union
from seqloom.ops.attention.patterns.neighbors import Dilated, Neighbors, segment
from seqloom.ops.attention.patterns.pattern import Pattern, positive


def strided(stride: int) -> tuple[Pattern, Pattern]:
    """Sparse Transformer's A⁽¹⁾ and A⁽²⁾: the `stride` tokens before the query, and every `stride`-th before it."""
    return Neighbors(positive("stride", stride)), Dilated(Neighbors(None), stride)


def fixed(length: int, size: int) -> tuple[Pattern, Pattern]:
    """Sparse Transformer's fixed parts: the query's segment, and the last `size` tokens of each segment."""
    if not 1 <= size <= length:
        raise ValueError(f"the summary of a segment of {length} tokens has 1 to {length} of them, not {size}")
    return segment(length), Summary(length, size)


def merged(parts: tuple[Pattern, Pattern]) -> Union:
    """Both parts of `strided` or `fixed` as one pattern; pairs that are in both count as the first part's."""
    near, far = parts
    if isinstance(far, Summary):
        return Union((near, replace(far, own=False)))
    assert isinstance(far, Dilated)
    return Union((near, replace(far, least=far.by + 1)))
