"""Pathfinder: two dashed curves, two of whose four ends are marked; the label says whether they are of the same curve.

Each curve is a walk of equal steps that turns by up to 35 degrees at each, and is drawn as dashes with gaps. They keep
a distance from each other and from the border. `joined` has the ends of one curve marked, `apart` an end of each.

Source: Linsley et al., arXiv:1805.08315; Tay et al., Long Range Arena, arXiv:2011.04006, section 2.2.5. What differs:
smaller pictures, and no other dashes.
"""

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
    dashes = 0.6 * _spots(np.concatenate([_dash_points(first), _dash_points(second)]), size, 0.4)
    ends = np.stack([first[0], first[-1] if joined else second[-1]])
    return np.maximum(dashes, _spots(ends, size, 1.8))


def _choose_walks(numbers: Floats, size: int) -> tuple[Floats, Floats]:
    """The first two walks of many that stay inside and away from each other; any two where there are none."""
    firsts, seconds = (walks[_inside(walks, size)] for walks in (_walks(half, size) for half in numbers))
    for first in firsts:
        away = np.flatnonzero(_distances(first, seconds) > APART)
        if away.size:
            return first, seconds[away[0]]
    first, second = _walks(numbers[:, 0], size)
    return first, second


def _walks(numbers: Floats, size: int) -> Floats:
    """The corners (N, STEPS + 1, 2) of walks, by their place, their direction and their turns (N, STEPS + 3)."""
    turns = (2 * numbers[:, 3:] - 1) * TURN
    angles = np.cumsum(np.concatenate([2 * math.pi * numbers[:, 2:3], turns], 1), 1)[:, 1:]
    steps = size / 10 * np.stack([np.cos(angles), np.sin(angles)], -1)
    begin = MARGIN + numbers[:, None, :2] * (size - 1 - 2 * MARGIN)
    return np.cumsum(np.concatenate([begin, steps], 1), 1)


def _inside(walks: Floats, size: int) -> npt.NDArray[np.bool_]:
    return np.all((walks >= MARGIN) & (walks <= size - 1 - MARGIN), axis=(1, 2))


def _distances(walk: Floats, others: Floats) -> Floats:
    """The smallest distance of a walk from each of the others (N,)."""
    apart = _between(walk)[:, None] - _between(others)[:, None]
    distances: Floats = np.linalg.norm(apart, axis=-1).min((1, 2))
    return distances


def _between(walks: Floats) -> Floats:
    """Points (…, 4 STEPS, 2) of walks, four for each step."""
    shares = np.arange(0, STEPS, 0.25)
    corner, share = shares.astype(int), (shares % 1)[:, None]
    points: Floats = walks[..., corner, :] * (1 - share) + walks[..., corner + 1, :] * share
    return points


def _dash_points(walk: Floats) -> Floats:
    """Points of a dash in the middle of each step."""
    shares = np.linspace(0.25, 0.75, 6)[:, None, None]
    points: Floats = walk[:-1] * (1 - shares) + walk[1:] * shares
    return points.reshape(-1, 2)


def _spots(points: Floats, size: int, radius: float) -> Floats:
    """1 near a point, 0 beyond the radius of all of them, and what is between on the way."""
    row, column = np.mgrid[0:size, 0:size]
    x, y = points[:, :1, None], points[:, 1:, None]
    return np.clip(radius + 0.5 - np.hypot(column - x, row - y).min(0), 0, 1)
