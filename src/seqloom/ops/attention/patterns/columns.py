"""Keys that many queries attend to: the ends of segments, or a few tokens."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.ops.attention.patterns.neighbors import Dilated, Neighbors
from seqloom.ops.attention.patterns.pattern import Pattern
from seqloom.ops.attention.patterns.sums import sum_clipped
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

    @override
    def pairs(self, T: int, within: int) -> int:
        outside = self.length - self.size

        def sums(n: int) -> int:  # of the summary tokens before x, over all x ≤ n
            segments, left = divmod(n + 1, self.length)
            in_segments = segments * sum_clipped(self.size - 1, self.size) + sum_clipped(left - 1 - outside, self.size)
            return in_segments + self.size * (self.length * sum_clipped(segments - 1, segments) + left * segments)

        count = sums(T) - (sums(T - within) if within < T else 0)
        if self.own_segment:
            return count
        segments, left = divmod(T, self.length)
        return count - segments * sum_clipped(self.size, within) - sum_clipped(left - outside, within)

    @override
    def seeing(self, T: int, within: int) -> int | None:
        """Those that see themselves, and those near enough to the end of the segment before theirs."""
        if not self.own_segment:
            return None
        outside = self.length - self.size
        segments, left = divmod(T, self.length)
        near = min(outside, within - 1)
        of_later = max(segments - 1, 0) * near + (min(left, near) if segments else 0)
        return segments * self.size + max(0, left - outside) + of_later

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
    def pairs(self, T: int, within: int) -> int | None:
        total = 0
        for token in {token for token in self.tokens if token < T}:
            first = token if self.causal else max(0, token - within + 1)
            total += min(T, token + within) - first
            if self.without is not None:
                hidden = _queries(self.without, token, T, within, self.causal)
                if hidden is None:
                    return None
                total -= hidden
        return total

    @override
    def keys(self, t: int) -> Tensor:
        then = self._times(t)
        return then if self.without is None else then[~self.without(torch.tensor(t), then)]

    def _times(self, last: int) -> Tensor:
        return torch.tensor(sorted(token for token in self.tokens if token <= last), dtype=torch.long)


def _queries(pattern: Pattern, key: int, T: int, within: int, causal: bool) -> int | None:
    """How many of T queries less than `within` from a key attend to it; None for patterns that are no windows.

    With `causal` only those at the key and after it.
    """
    window, by = (pattern.inner, pattern.by) if isinstance(pattern, Dilated) else (pattern, 1)
    if not isinstance(window, Neighbors) or window.block != 1 or (isinstance(pattern, Dilated) and pattern.least):
        return None
    most = (within - 1) // by
    behind = min(key // by, most)  # queries before the key that are in reach
    if window.causal or causal:
        behind = 0
    elif window.before is not None:
        behind = min(behind, window.after)
    after = min((T - 1 - key) // by, most)
    return behind + 1 + (after if window.before is None else min(after, window.before))
