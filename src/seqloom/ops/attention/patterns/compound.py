"""Patterns made of other patterns: their union, their restriction to the latest tokens, and the Sparse Transformer's.

The Sparse Transformer has two parts that together connect all tokens, as two patterns or as their union.
"""

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.patterns.columns import Summary
from seqloom.ops.attention.patterns.neighbors import Dilated, Neighbors, segment
from seqloom.ops.attention.patterns.pattern import Pattern, positive
from seqloom.ops.attention.tiles import Predicate, Tiles


@final
@dataclass(frozen=True)
class Union(Pattern):
    """The union of patterns that have no pair in common."""

    parts: tuple[Pattern, ...]

    @property
    @override
    def causal(self) -> bool:
        return all(part.causal for part in self.parts)

    @property
    @override
    def reach(self) -> int | None:
        reaches = [part.reach for part in self.parts]
        return None if None in reaches else max(reach for reach in reaches if reach is not None)

    @property
    @override
    def depends_on_length(self) -> bool:
        return any(part.depends_on_length for part in self.parts)

    @override
    def of(self, length: Tensor | int) -> "Union":
        return replace(self, parts=tuple(part.of(length) for part in self.parts))

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        visible, *others = (part(i, j) for part in self.parts)
        for other in others:
            visible = visible | other
        return visible

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [tiles for part in self.parts for tiles in part.tiles(T)]

    @override
    def pairs(self, T: int, within: int) -> int | None:
        counts = [part.pairs(T, within) for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    @override
    def seeing(self, T: int, within: int) -> int | None:
        return T if any(part.seeing(T, within) == T for part in self.parts) else None

    @override
    def keys(self, t: int) -> Tensor:
        return torch.cat([part.keys(t) for part in self.parts]).sort().values


@final
@dataclass(frozen=True)
class Within(Pattern):
    """A pattern without the keys that are `context` or more tokens away."""

    inner: Pattern
    context: int

    @property
    @override
    def reach(self) -> int:
        return self.context if self.inner.reach is None else min(self.context, self.inner.reach)

    @property
    @override
    def causal(self) -> bool:
        return self.inner.causal

    @property
    @override
    def depends_on_length(self) -> bool:
        return self.inner.depends_on_length

    @override
    def of(self, length: Tensor | int) -> "Within":
        return replace(self, inner=self.inner.of(length))

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.inner(i, j) & ((i - j).abs() < self.context)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [replace(part, visible=_and_within(part.visible, self.context)) for part in self.inner.tiles(T)]

    @override
    def keys(self, t: int) -> Tensor:
        then = self.inner.keys(t)
        return then[t - then < self.context]

    @override
    def pairs(self, T: int, within: int) -> int | None:
        return self.inner.pairs(T, min(within, self.context))

    @override
    def seeing(self, T: int, within: int) -> int | None:
        return self.inner.seeing(T, min(within, self.context))

    @override
    def count_seen(self, t: int, within: int) -> int | None:
        return self.inner.count_seen(t, min(within, self.context))


def _and_within(visible: Predicate, context: int) -> Predicate:
    return lambda i, j: visible(i, j) & ((i - j).abs() < context)


def strided_parts(stride: int) -> tuple[Pattern, Pattern]:
    """Sparse Transformer's A⁽¹⁾ and A⁽²⁾: the `stride` tokens before the query, and every `stride`-th before it."""
    return Neighbors(positive("stride", stride)), Dilated(Neighbors(None), stride)


def fixed_parts(length: int, size: int) -> tuple[Pattern, Pattern]:
    """Sparse Transformer's fixed parts: the query's segment, and the last `size` tokens of each segment."""
    if not 1 <= size <= length:
        raise ValueError(f"the summary of a segment of {length} tokens has 1 to {length} of them, not {size}")
    return segment(length), Summary(length, size)


def merge_parts(parts: tuple[Pattern, Pattern]) -> Union:
    """Both parts of `strided_parts` or `fixed_parts` as one pattern; pairs in both count as the first part's."""
    first, second = parts
    if isinstance(second, Summary):
        return Union((first, replace(second, own_segment=False)))
    assert isinstance(second, Dilated)
    return Union((first, replace(second, least=second.by + 1)))
