"""The Pareto front of points in two quantities of which less is better."""

from collections.abc import Sequence
from math import inf, isfinite


def front(points: Sequence[tuple[str, float, float]]) -> list[str]:
    """The names that no other point beats, by increasing x.

    A point is beaten by one that is no greater in x and in y and smaller in one of them; equal points stay together.
    Points with a coordinate that is not finite are left out.
    """
    best = inf
    names: list[str] = []
    last: tuple[float, float] | None = None
    for name, x, y in sorted((p for p in points if isfinite(p[1]) and isfinite(p[2])), key=lambda p: (p[1], p[2])):
        if y < best or (x, y) == last:
            names.append(name)
            best, last = y, (x, y)
    return names
