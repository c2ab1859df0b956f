"""Keys that many queries attend to: the ends of segments, or a few tokens."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.patterns.pattern import Pattern
from seqloom.ops.attention.tiles import Tiles, among


@final
@dataclass(frozen=True)
class Summary(Pattern):
    """Queries attend to the last `size` tokens of each earlier segment of `length` tokens.

    With `own_segment` also to those of the query's own segment, up to the query.
    """

    length: int
    size: int
    own_segment: bool = True

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        visible = (j <= i) & (j % self.length >= self.length - self.size)
        return visible if self.own_segment else visible & (j // self.length < i // self.length)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [among(self._times(T), T, self, causal=True)]

    @override
    def keys(self, t: int) -> Tensor:
        then = self._times(t + 1)
        return then if self.own_segment else then[then // self.length < t // self.length]

    def _times(self, T: int) -> Tensor:
        positions = torch.arange(self.length - self.size, self.length)
        then = (torch.arange(-(-T // self.length))[:, None] * self.length + positions).flatten()
        return then[then < T]


@final
@dataclass(frozen=True)
class Columns(Pattern):
    """Every query attends to these tokens (up to itself if `causal`), except for the pairs of the pattern `without`."""

    tokens: tuple[int, ...]
    causal: bool = True
    without: Pattern | None = None

    @override
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        visible = torch.zeros_like(j, dtype=torch.bool)
        for token in self.tokens:
            visible = visible | (j == token)
        visible = (visible & (j <= i)) if self.causal else visible & (i >= 0)
        return visible if self.without is None else visible & ~self.without(i, j)

    @override
    def tiles(self, T: int) -> list[Tiles]:
        return [among(self._times(T - 1), T, self, self.causal)]

    @override
    def keys(self, t: int) -> Tensor:
        then = self._times(t)
        return then if self.without is None else then[~self.without(torch.tensor(t), then)]

    def _times(self, last: int) -> Tensor:
        return torch.tensor(sorted(token for token in self.tokens if token <= last), dtype=torch.long)
