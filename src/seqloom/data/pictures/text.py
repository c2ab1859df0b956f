"""A picture as text, and back: one character for each number of a pixel."""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Picture: TypeAlias = npt.NDArray[np.uint8]
"""(height, width, channels); one channel is gray, three are red, green and blue"""
Order: TypeAlias = Literal["raster", "blocks"]
FRAME = "▢"
"""the first character of every picture"""
ZERO = 0x2800
"""the character of 0; that of 255 is U+28FF, the last pattern of Braille"""
BLOCKS = 4
"""squares along a side, in the order of blocks"""


def encode_picture(picture: Picture, order: Order = "raster") -> str:
    """The text of a picture."""
    height, width, channels = picture.shape
    numbers = picture.reshape(-1, channels)[place_pixels(height, width, order)].reshape(-1)
    return FRAME + "".join(chr(ZERO + number) for number in numbers.tolist())


def decode_picture(text: str, height: int, width: int, channels: int, order: Order = "raster") -> Picture:
    """The picture of a text. What is no number of a pixel, and what is missing at the end, is 0."""
    numbers = np.zeros(height * width * channels, np.uint8)
    written = text.removeprefix(FRAME)[: len(numbers)]
    letters = np.frombuffer(written.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.int64)
    values = letters - ZERO
    numbers[: len(letters)] = np.where((values >= 0) & (values <= 255), values, 0)
    pixels = np.zeros((height * width, channels), np.uint8)
    pixels[place_pixels(height, width, order)] = numbers.reshape(-1, channels)
    return pixels.reshape(height, width, channels)


def place_pixels(height: int, width: int, order: Order) -> npt.NDArray[np.int64]:
    """The numbers of the pixels, row by row, in the order in which they are written.

    ValueError where the squares of the order of blocks do not fill the picture.
    """
    pixels = np.arange(height * width).reshape(height, width)
    if order == "raster":
        return pixels.reshape(-1)
    if height % BLOCKS or width % BLOCKS:
        raise ValueError(
            f"a picture of {width} × {height} pixels has no {BLOCKS} × {BLOCKS} equal squares: leave blocks out"
        )
    squares = pixels.reshape(BLOCKS, height // BLOCKS, BLOCKS, width // BLOCKS)
    return squares.transpose(0, 2, 1, 3).reshape(-1)
