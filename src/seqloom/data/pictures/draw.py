"""Pictures that are drawn here: digits, shapes, textures and colored shapes, each with its label.

    digits      a digit of 5 × 7 dots, turned by up to 15 degrees, of another size and place; label: the digit
    shapes      a filled circle, square or triangle in gray on gray; label: its name
    textures    waves in one of four directions, with noise; label: the direction
    colors      as shapes, in red, green and blue; label: its name
    pathfinder  two dashed curves, and two marked ends; label: whether they are joined (`pathfinder`)

A picture depends on (kind, size, seed, number) alone. Numbers are 0, 17, …, 255: sixteen levels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from seqloom.data.pictures.pathfinder import draw_paths
from seqloom.data.pictures.text import Picture
from seqloom.data.probes.draws import Draws

LEVELS = 16
SMALLEST, LARGEST = 8, 64
"""pixels of a side"""
DOTS = (
    "01110100011001110101110011000101110", "00100011000010000100001000010001110",
    "01110100010000100010001000100011111", "11111000100010000010000011000101110",
    "00010001100101010010111110001000010", "11111100001111000001000011000101110",
    "00110010001000011110100011000101110", "11111000010001000100010000100001000",
    "01110100011000101110100011000101110", "01110100011000101111000010001001100",
)  # fmt: skip
"""5 × 7 dots of each digit, row by row"""
FONT = np.array([[int(dot) for dot in dots] for dots in DOTS], float).reshape(10, 7, 5)
SHAPES = ("circle", "square", "triangle")
DIRECTIONS = ("across", "down", "falling", "rising")
Floats: TypeAlias = npt.NDArray[np.float64]


@final
@dataclass(frozen=True)
class Drawn:
    """A picture and what is on it."""

    picture: Picture
    label: str


def draw_pictures(kind: str, size: int, seed: int, first: int, count: int) -> list[Drawn]:
    """Pictures number `first`, … of `size` × `size` pixels."""
    draws = Draws(f"pictures {kind} {size} {seed}", first, count)
    values, labels = KINDS[kind](draws, size)
    levels = np.round(np.clip(values, 0, 1) * (LEVELS - 1)).astype(np.uint8) * (255 // (LEVELS - 1))
    return [Drawn(picture, label) for picture, label in zip(levels, labels, strict=True)]


def _digits(draws: Draws, size: int) -> tuple[Floats, list[str]]:
    digit = draws.below(10, 1)[:, 0]
    x, y = _turned_grid(draws, size)
    values = _between_dots(FONT[digit], x * 5 / 2 + 2, y * 5 / 2 + 3)
    return values[..., None], [str(number) for number in digit]


def _shapes(draws: Draws, size: int) -> tuple[Floats, list[str]]:
    inside, names = _cover(draws, size)
    dark, light = 0.4 * uniform(draws, 1)[:, :, None], 0.6 + 0.4 * uniform(draws, 1)[:, :, None]
    return (dark + (light - dark) * inside)[..., None], names


def _colors(draws: Draws, size: int) -> tuple[Floats, list[str]]:
    inside, names = _cover(draws, size)
    below, above = (uniform(draws, 3)[:, None, None, :] for _ in range(2))
    return below + (above - below) * inside[..., None], names


def _textures(draws: Draws, size: int) -> tuple[Floats, list[str]]:
    direction = draws.below(4, 1)
    y, x = np.mgrid[0:size, 0:size]
    steps = np.stack([y, x, x + y, x - y]).reshape(4, -1)[direction[:, 0]].reshape(-1, size, size)
    wave, phase = 3 + 5 * uniform(draws, 1)[:, :, None], uniform(draws, 1)[:, :, None]
    noise = (uniform(draws, size * size) - 0.5).reshape(-1, size, size)
    values = 0.5 + 0.4 * np.sin(2 * np.pi * (steps / wave + phase)) + 0.2 * noise
    return values[..., None], [DIRECTIONS[number] for number in direction[:, 0]]


def _cover(draws: Draws, size: int) -> tuple[Floats, list[str]]:
    """How much of each pixel (N, H, W) a shape covers, and its name."""
    kind = draws.below(len(SHAPES), 1)[:, 0]
    x, y = _turned_grid(draws, size)
    distance = np.stack(
        [
            np.hypot(x, y) - 1,
            np.maximum(abs(x), abs(y)) - 0.9,
            np.maximum(y - 0.7, 0.87 * abs(x) - 0.5 * y - 0.6),
        ]
    )
    chosen = distance[kind, np.arange(len(kind))]
    return np.clip(0.5 - chosen * size / 4, 0, 1), [SHAPES[number] for number in kind]


def _turned_grid(draws: Draws, size: int) -> tuple[Floats, Floats]:
    """x and y (N, H, W) of each pixel, from about -1.6 to 1.6, turned, stretched and moved for each picture."""
    angle, zoom, right, down = (uniform(draws, 1)[:, :, None] for _ in range(4))
    turn, scale = (angle - 0.5) * np.pi / 6, 1.5 + 0.6 * zoom
    y, x = (np.mgrid[0:size, 0:size] + 0.5) / size * 2 - 1
    x, y = (x - 0.3 * (right - 0.5)) * scale, (y - 0.3 * (down - 0.5)) * scale
    return np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y


def _between_dots(dots: Floats, column: Floats, row: Floats) -> Floats:
    """The dots (N, 7, 5) at places between them, by their four neighbors; 0 beyond them."""
    padded = np.pad(dots, ((0, 0), (1, 2), (1, 2)))
    column, row = np.clip(column + 1, 0, 6), np.clip(row + 1, 0, 8)
    left, top = column.astype(int), row.astype(int)
    number = np.arange(len(dots))[:, None, None]
    right_share, lower_share = column - left, row - top
    upper = padded[number, top, left] * (1 - right_share) + padded[number, top, left + 1] * right_share
    lower = padded[number, top + 1, left] * (1 - right_share) + padded[number, top + 1, left + 1] * right_share
    values: Floats = upper * (1 - lower_share) + lower * lower_share
    return values


def uniform(draws: Draws, count: int) -> Floats:
    """(N, count) numbers in [0, 1)."""
    return draws.bits(count) / np.float64(2**64)


KINDS: dict[str, Callable[[Draws, int], tuple[Floats, list[str]]]] = {
    "digits": _digits,
    "shapes": _shapes,
    "textures": _textures,
    "colors": _colors,
    "pathfinder": draw_paths,
}
"""makes the values (N, H, W, C) from 0 to 1, and the labels, by the kind of picture"""
