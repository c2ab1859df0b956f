"""Sparse attention patterns: which keys a query looks at.

    pattern(i, j)       True where the query at time i looks at the key at time j; elementwise, any broadcast shapes
    pattern.tiles(T)    the tiles of the matrix of scores of T tokens that are touched
    pattern.keys(t)     the times of the keys that the last of t + 1 tokens looks at, in order

    Neighbors   `local`, `around`, `segment` (fixed, first part), `blocks_before` (Image Transformer, 1-D)
    Dilated     a pattern over every d-th token: i ≡ j (mod d), pattern(i // d, j // d); `strided`, second part
    Summary     the last c tokens of each segment of l: j mod l ≥ l - c (fixed, second part)
    Columns     a few tokens that all queries look at
    Union       patterns that share no pair; `merged` of the two parts of `strided` or `fixed`
    Within      a pattern within the latest tokens

`block_patterns` has those that cut the text into blocks.

Source: Child et al., arXiv:1904.10509; Parmer et al., arXiv:1802.05751; Beltagy et al., arXiv:2004.05150. Child et al.
write A⁽²⁾ without j ≤ i, which their text asks for.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.tiles import Predicate, Tiles, among, blocks_of, ranges, vectors


class Pattern(ABC):
    """Which keys a query looks at. Patterns are values: equal ones share their tiles."""

    @property
    def causal(self) -> bool:
        """Whether no query looks at a later key."""
        return True

    @property
    def reach(self) -> int | None:
        """How many tokens a query looks back on at most, itself included; None for all."""
        return None

    @property
    def measured(self) -> bool:
        """Whether it depends on the length of the text."""
        return False

    @abstractmethod
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """True where the query at time i looks at the key at time j."""

    @abstractmethod
    def tiles(self, T: int) -> list[Tiles]:
        """The tiles of a text of T tokens. No pair is in two of them."""

    def keys(self, t: int) -> Tensor:
        """The times of the keys that the query at time t looks at, among those up to t."""
        then = torch.arange(t + 1)
        return then[self(torch.tensor(t), then)]

    def counted(self, T: int) -> tuple[int, int] | None:
        """How many of T queries look at any key, and how many pairs they have; None where the tiles must be counted."""
        return None

    def of(self, length: "Tensor | int") -> "Pattern":
        """The pattern for texts of these lengths, where it depends on them; by default the same."""
        return self


@final
@dataclass(frozen=True)
class Neighbors(Pattern):
    """Each query looks at neighbouring keys: those from `block` · ⌊i/block⌋ - before to the end of its block + after.

    With `block` 1 that is a window. None for `before` is all keys from the first; if not causal, all to the last, too.
    """

    before: int | None
    after: int = 0
    block: int = 1
    causal: bool = True

    @property
    @override
    def reach(self) -> int | None:
        return None if self.before is None else self.before + self.block

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        low, high = self._ends(i)
        return (j >= low) & (j <= high)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        times = blocks_of(T, self.block)
        low, high = self._ends(times.clamp(min=0))
        keys = vectors(torch.arange(T))
        size = keys.shape[1]
        first = torch.where(times < 0, T, low.clamp(min=0)).amin(1) // size
        last = torch.where(times < 0, 0, high.clamp(max=T - 1)).amax(1) // size
        return [Tiles(times, keys, ranges(first, last), self)]

    @override
    def keys(self, t: int) -> Tensor:
        low = 0 if self.before is None else t // self.block * self.block - self.before
        return torch.arange(max(0, low), t + 1)

    def _ends(self, i: Tensor) -> tuple[Tensor, Tensor]:
        first = i // self.block * self.block
        low = torch.zeros_like(i) if self.before is None else first - self.before
        if self.causal:
            return low, i
        far = 1 << 40 if self.before is None else self.block - 1 + self.after
        return low, first + far


def local(window: int) -> Neighbors:
    """Each query looks at itself and at the `window` - 1 tokens before it."""
    return Neighbors(positive("window", window) - 1)


def around(radius: int) -> Neighbors:
    """Each query looks at the tokens up to `radius` away on both sides."""
    return Neighbors(radius, radius, causal=False)


def segment(length: int) -> Neighbors:
    """Each query looks at the tokens of its segment up to itself."""
    return Neighbors(0, block=positive("length", length))


def blocks_before(block: int, memory: int) -> Neighbors:
    """Image Transformer, 1-D: the query's block up to itself, and the `memory` tokens before the block."""
    return Neighbors(memory, block=positive("block", block))


@final
@dataclass(frozen=True)
class Dilated(Pattern):
    """A pattern over every `by`-th token: gaps of `by` - 1 tokens between keys."""

    inner: Pattern
    by: int
    least: int = 0
    """the shortest distance |i - j| that is looked at"""

    @property
    @override
    def causal(self) -> bool:
        return self.inner.causal

    @property
    @override
    def reach(self) -> int | None:
        return None if self.inner.reach is None else (self.inner.reach - 1) * self.by + 1

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        near = (i - j) % self.by == 0
        if self.least:
            near = near & ((i - j).abs() >= self.least)
        return near & self.inner(i // self.by, j // self.by)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        found = []
        for part in self.inner.tiles(-(-T // self.by)):
            residues = torch.arange(self.by)[:, None, None]
            queries, keys = (_spread(times, residues, self.by, T) for times in (part.queries, part.keys))
            shifted = part.blocks + residues * len(part.keys)
            blocks = torch.where(part.blocks < 0, -1, shifted).flatten(0, 1)
            found.append(Tiles(queries, keys, blocks, self))
        return found

    @override
    def keys(self, t: int) -> Tensor:
        then = self.inner.keys(t // self.by) * self.by + t % self.by
        return then[t - then >= self.least]


def _spread(times: Tensor, residues: Tensor, by: int, T: int) -> Tensor:
    then = times * by + residues
    return torch.where((times >= 0) & (then < T), then, -1).flatten(0, 1)


@final
@dataclass(frozen=True)
class Summary(Pattern):
    """The last `size` tokens of each segment of `length`; those of the query's own segment only if `own`."""

    length: int
    size: int
    own: bool = True

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        looked = (j <= i) & (j % self.length >= self.length - self.size)
        return looked if self.own else looked & (j // self.length < i // self.length)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [among(self._times(T), T, self, causal=True)]

    @override
    def keys(self, t: int) -> Tensor:
        then = self._times(t + 1)
        return then if self.own else then[then // self.length < t // self.length]

    def _times(self, T: int) -> Tensor:
        each = torch.arange(self.length - self.size, self.length)
        then = (torch.arange(-(-T // self.length))[:, None] * self.length + each).flatten()
        return then[then < T]


@final
@dataclass(frozen=True)
class Columns(Pattern):
    """Tokens that every query looks at, up to itself where `causal`, unless `without` looks at them already."""

    tokens: tuple[int, ...]
    causal: bool = True
    without: Pattern | None = None

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        looked = torch.zeros_like(j, dtype=torch.bool)
        for token in self.tokens:
            looked = looked | (j == token)
        looked = (looked & (j <= i)) if self.causal else looked & (i >= 0)
        return looked if self.without is None else looked & ~self.without(i, j)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [among(self._times(T - 1), T, self, self.causal)]

    @override
    def keys(self, t: int) -> Tensor:
        then = self._times(t)
        return then if self.without is None else then[~self.without(torch.tensor(t), then)]

    def _times(self, last: int) -> Tensor:
        return torch.tensor(sorted(token for token in self.tokens if token <= last), dtype=torch.long)


@final
@dataclass(frozen=True)
class Union(Pattern):
    """All pairs of a few patterns that have none in common."""

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
    def measured(self) -> bool:
        return any(part.measured for part in self.parts)

    @override
    def of(self, length: Tensor | int) -> "Union":
        return replace(self, parts=tuple(part.of(length) for part in self.parts))

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        first, *others = (part(i, j) for part in self.parts)
        for other in others:
            first = first | other
        return first

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [tiles for part in self.parts for tiles in part.tiles(T)]

    @override
    def keys(self, t: int) -> Tensor:
        return torch.cat([part.keys(t) for part in self.parts]).sort().values


def strided(stride: int) -> tuple[Pattern, Pattern]:
    """Sparse Transformer's A⁽¹⁾ and A⁽²⁾: the `stride` tokens before the query, and every `stride`-th before it."""
    return Neighbors(positive("stride", stride)), Dilated(Neighbors(None), stride)


def fixed(length: int, size: int) -> tuple[Pattern, Pattern]:
    """Sparse Transformer's fixed parts: the query's segment, and the last `size` tokens of each segment."""
    if not 1 <= size <= length:
        raise ValueError(f"the summary of a segment of {length} tokens has 1 to {length} of them, not {size}")
    return segment(length), Summary(length, size)


def merged(parts: tuple[Pattern, Pattern]) -> Union:
    """Both parts of `strided` or `fixed` as one pattern: the second without what the first has."""
    near, far = parts
    if isinstance(far, Summary):
        return Union((near, replace(far, own=False)))
    assert isinstance(far, Dilated)
    return Union((near, replace(far, least=far.by + 1)))


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
    def measured(self) -> bool:
        return self.inner.measured

    @override
    def of(self, length: Tensor | int) -> "Within":
        return replace(self, inner=self.inner.of(length))

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.inner(i, j) & ((i - j).abs() < self.context)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [replace(part, looks=_and_within(part.looks, self.context)) for part in self.inner.tiles(T)]

    @override
    def keys(self, t: int) -> Tensor:
        then = self.inner.keys(t)
        return then[t - then < self.context]

    @override
    def counted(self, T: int) -> tuple[int, int] | None:
        return self.inner.counted(T) if self.context >= T else None


def _and_within(looks: Predicate, context: int) -> Predicate:
    return lambda i, j: looks(i, j) & ((i - j).abs() < context)


def positive(name: str, given: int) -> int:
    """The number, or ValueError where it is below 1."""
    if given < 1:
        raise ValueError(f"{name} is 1 or more tokens, not {given}")
    return given
