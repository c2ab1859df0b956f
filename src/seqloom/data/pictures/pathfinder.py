"""Pathfinder: two dashed curves, two of whose four ends are marked; the label says whether they are of the same curve.

Each curve is a walk of equal steps that turns by up to 35 degrees at each, and is drawn as dashes with gaps. They keep
a distance from each other and from the border. `joined` has the ends of one curve marked, `apart` an end of each.

Source: Linsley et al., arXiv:1805.08315; Tay et al., Long Range Arena, arXiv:2011.04006, section 2.2.5. What differs:
smaller pictures, and no other dashes.
"""

import itertools
import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from seqloom.data.probes.draws import Draws

STEPS = 6
"""steps of a curve"""
TURN = math.radians(35)
TRIES = 200
APART, MARGIN = 6.0, 2.0
"""pixels between the curves, and between a curve and the border"""
SMALLEST = 24
"""pixels of a side, in which such curves fit"""
LABELS = ("apart", "joined")
Floats: TypeAlias = npt.NDArray[np.float64]


def draw_paths(draws: Draws, size: int) -> tuple[Floats, list[str]]:
    """The values (N, H, W, 1) of pictures, and their labels."""
    joined = draws.below(2, 1)[:, 0]
    numbers = draws.bits(2 * TRIES * (STEPS + 3)) / np.float64(2**64)
    pictures = [
        _picture(row.reshape(2, TRIES, -1), bool(label), size) for row, label in zip(numbers, joined, strict=True)
    ]
    return np.stack(pictures)[..., None], [LABELS[label] for label in joined]


def _picture(numbers: Floats, joined: bool, size: int) -> Floats:
    first, second = _choose_walks(numbers, size)
    values = np.maximum(_dashes(first, size), _dashes(second, size))
    for x, y in (first[0], first[-1] if joined else second[-1]):
        values = np.maximum(values, _disc(x, y, size))
    return values


def _choose_walks(numbers: Floats, size: int) -> tuple[Floats, Floats]:
    """The first two walks of many that stay inside and away from each other; any two where there are none."""
    firsts, seconds = ([walk for tried in half if _inside(walk := _walk(tried, size), size)] for half in numbers)
    apart = ((a, b) for a, b in itertools.product(firsts, seconds) if _distance(a, b) > APART)
    return next(apart, (_walk(numbers[0, 0], size), _walk(numbers[1, 0], size)))


def _walk(numbers: Floats, size: int) -> Floats:
    """The corners (STEPS + 1, 2) of a walk, by its place, its direction and its turns."""
    angle = 2 * math.pi * numbers[2]
    walk = np.empty((STEPS + 1, 2))
    walk[0] = MARGIN + numbers[:2] * (size - 1 - 2 * MARGIN)
    for step in range(STEPS):
        angle += (2 * numbers[3 + step] - 1) * TURN
        walk[step + 1] = walk[step] + size / 10 * np.array([math.cos(angle), math.sin(angle)])
    return walk


def _inside(walk: Floats, size: int) -> bool:
    return bool(((walk >= MARGIN) & (walk <= size - 1 - MARGIN)).all())


def _distance(walk: Floats, other: Floats) -> float:
    return float(np.linalg.norm(_between(walk)[:, None] - _between(other)[None], axis=2).min())


def _between(walk: Floats) -> Floats:
    """Points of a walk, four for each step."""
    shares = np.arange(0, STEPS, 0.25)
    corner, share = shares.astype(int), (shares % 1)[:, None]
    points: Floats = walk[corner] * (1 - share) + walk[corner + 1] * share
    return points


def _dashes(walk: Floats, size: int) -> Floats:
    """A dash in the middle of each step, one pixel wide."""
    values = np.zeros((size, size))
    for first, last in itertools.pairwise(walk):
        for share in np.linspace(0.25, 0.75, 6):
            x, y = first * (1 - share) + last * share
            values = np.maximum(values, 0.6 * _spot(x, y, size, 0.4))
    return values


def _disc(x: float, y: float, size: int) -> Floats:
    return _spot(x, y, size, 1.8)


def _spot(x: float, y: float, size: int, radius: float) -> Floats:
    """1 near a point, 0 beyond the radius, and what is between on the way."""
    row, column = np.mgrid[0:size, 0:size]
    return np.clip(radius + 0.5 - np.hypot(column - x, row - y), 0, 1)
