"""Sums in closed form, of which the patterns count their pairs."""

from torch import Tensor


def sum_clipped(n: int, most: int) -> int:
    """min(1, most) + min(2, most) + … + min(n, most); 0 where n or `most` is below 1."""
    if n < 1 or most < 1:
        return 0
    rising = min(n, most)
    return rising * (rising + 1) // 2 + (n - rising) * most


def band(queries: range, keys: range, within: int) -> int:
    """The pairs of a query time and a key time that are less than `within` apart."""

    def up_to(ahead: int) -> int:  # pairs of a query and a key at most `ahead` later
        shift = ahead - keys.start
        return sum_clipped(queries.stop + shift, len(keys)) - sum_clipped(queries.start + shift, len(keys))

    return up_to(within - 1) - up_to(-within) if queries and keys else 0


def count_band(start: Tensor, stop: Tensor, first: Tensor, last: Tensor, behind: int, ahead: int) -> Tensor:
    """The pairs of each query time in [start, stop) and key time in [first, last), `behind` to `ahead` after it."""
    width = (last - first).clamp(min=0)

    def up_to(after: int) -> Tensor:  # pairs of a query and a key at most `after` later
        shift = after - first
        return _sum_clipped_tensor(stop + shift, width) - _sum_clipped_tensor(start + shift, width)

    return up_to(ahead) - up_to(behind - 1)


def _sum_clipped_tensor(n: Tensor, most: Tensor) -> Tensor:
    """What `sum_clipped` says, of each pair of numbers; `most` is not negative."""
    n = n.clamp(min=0)
    rising = n.minimum(most)
    return rising * (rising + 1) // 2 + (n - rising) * most
