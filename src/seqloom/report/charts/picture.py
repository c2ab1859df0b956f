"""Maps: numbers over two axes as colored cells, as a PNG that needs no script or as a specification."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import TypeAlias

Pixel: TypeAlias = tuple[int, int, int]
"""red, green and blue, from 0 to 255"""
RGB, PALETTE = 2, 3
"""color types of PNG"""
STEPS = 48
"""colors of a scale; one step is at the limit of visibility"""
# Pale to deep: lightness falls all the way, so the order holds in grey and with any color vision.
DEPTHS = ("#f6f3e4", "#bfdcc5", "#62b3b4", "#2a7aa8", "#2b4585", "#1d1a4b")
# Blue and orange-red stay apart with all three color-vision deficiencies; both ends are equally dark.
SIGNS = ("#173f86", "#4b87c4", "#a3c6e4", "#f4f2ee", "#f3bf91", "#cf6a35", "#7f2109")


def picture(values: Sequence[Sequence[float]], *, signed: bool) -> str:
    """The map as a `data:` address of a PNG, one pixel per cell: rows from the top, columns from the left.

    Colors run from 0 to the largest value; with `signed`, from minus to plus the largest size.
    """
    largest = max((abs(value) for row in values for value in row), default=0.0) or 1.0
    low = -largest if signed else 0.0
    steps = [
        [round(STEPS * (min(max(value, low), largest) - low) / (largest - low)) for value in row] for row in values
    ]
    return "data:image/png;base64," + b64encode(png(steps, SIGNS if signed else DEPTHS)).decode()


def png(steps: Sequence[Sequence[int | None]], scale: Sequence[str] = DEPTHS) -> bytes:
    """A PNG of one pixel per cell, whose colors are steps 0 … 48 of a scale; None is white.

    Source: W3C, Portable Network Graphics (third edition), 2025: palette, eight bits a pixel, no filter.
    """
    palette = [*colors(scale), (255, 255, 255)]
    lines = [bytes([0, *(len(palette) - 1 if step is None else step for step in row)]) for row in steps]
    plte = bytes(part for color in palette for part in color)
    return _file(len(steps[0]), lines, PALETTE, {b"PLTE": plte})


def paint(lines: Sequence[Sequence[Pixel]]) -> str:
    """Pixels, line by line, as the `data:` address of a PNG."""
    data = [bytes([0, *(part for pixel in line for part in pixel)]) for line in lines]
    return "data:image/png;base64," + b64encode(_file(len(lines[0]), data, RGB, {})).decode()


def pixel_lines(numbers: Sequence[int], shape: Sequence[int]) -> list[list[Pixel]]:
    """The pixels of a picture, line by line, of its numbers 0 … 255 in rows from the top.

    `shape`: height, width and numbers of a pixel, which are one of gray or three of red, green and blue.
    """
    height, width, channels = shape
    pixels = [numbers[first : first + channels] for first in range(0, height * width * channels, channels)]
    colored = [(pixel[0], pixel[channels // 2], pixel[-1]) for pixel in pixels]
    return [colored[first : first + width] for first in range(0, len(colored), width)]


def _file(width: int, lines: Sequence[bytes], color: int, before: dict[bytes, bytes]) -> bytes:
    """A PNG of lines that each begin with the number of their filter, and chunks that come before them."""
    header = struct.pack(">IIBBBBB", width, len(lines), 8, color, 0, 0, 0)
    parts = {b"IHDR": header, **before, b"IDAT": zlib.compress(b"".join(lines), 9), b"IEND": b""}
    chunks = (struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))
              for tag, body in parts.items())  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def colors(scale: Sequence[str]) -> list[Pixel]:
    """The 49 colors of a scale, evenly between its anchors."""
    anchors = [tuple(int(color[first : first + 2], 16) for first in (1, 3, 5)) for color in scale]
    colors = []
    for step in range(STEPS + 1):
        position, share = divmod(step / STEPS * (len(anchors) - 1), 1)
        low, high = anchors[int(position)], anchors[min(int(position) + 1, len(anchors) - 1)]
        red, green, blue = (round(a + share * (b - a)) for a, b in zip(low, high, strict=True))
        colors.append((red, green, blue))
    return colors
