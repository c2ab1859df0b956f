"""The pictures that a name of a source means: drawn ones, or the PNG files of a folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from seqloom.core.config import suggestion
from seqloom.core.seeds import require_seed
from seqloom.data.pictures import pathfinder
from seqloom.data.pictures.draw import KINDS, LARGEST, SMALLEST, Drawn, draw_pictures
from seqloom.data.pictures.text import BLOCKS, Order, Picture, place_pixels

PREFIX = "images"
SIZE, COUNT = 16, 20000
MOST = 10**6
AT_ONCE = 256
"""pictures that are drawn together"""
MOST_PIXELS = 2**16
"""the most numbers of a picture, of which each is a token"""


@final
@dataclass(frozen=True)
class Pictures:
    """Pictures of one size, in a fixed order."""

    name: str
    height: int
    width: int
    channels: int
    order: Order
    count: int
    folder: Path | None = None
    kind: str = ""
    seed: int = 0

    @property
    def numbers(self) -> int:
        """Numbers of a picture: its dimensions, in the sense of bits per dimension."""
        return self.height * self.width * self.channels

    def __iter__(self) -> Iterator[Drawn]:
        """Each picture with its label; that of a file is the name of its folder. ValueError for a file that is odd."""
        if self.folder is not None:
            yield from (self._of_file(path) for path in _files(self.folder))
            return
        for first in range(0, self.count, AT_ONCE):
            yield from draw_pictures(self.kind, self.width, self.seed, first, min(AT_ONCE, self.count - first))

    def example(self, number: int) -> Drawn:
        """A picture that comes after those of the source, where they are drawn; otherwise one of its files."""
        if self.folder is None:
            return draw_pictures(self.kind, self.width, self.seed, self.count + number, 1)[0]
        files = _files(self.folder)
        return self._of_file(files[number % len(files)])

    def _of_file(self, path: Path) -> Drawn:
        return Drawn(_read_file(path, self), path.parent.name)


def read_pictures(source: str) -> Pictures:
    """The pictures of a name. ValueError, in one line, for a wrong name, and for a folder without PNG files."""
    name = source.removeprefix(f"{PREFIX}:")
    order: Order = "blocks" if name.endswith(":blocks") else "raster"
    name = name.removesuffix(":blocks")
    if "/" in name or name.startswith((".", "~")):
        return _of_folder(source, Path(name).expanduser(), order)
    kind, *words = name.split(":")
    if kind not in KINDS:
        raise ValueError(f"{source[:100]}: pictures are images:KIND or images:./FOLDER; {suggestion(kind, KINDS)}")
    if len(words) > 3 or not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
        raise ValueError(
            f"{source[:100]}: say images:{kind}[:SIZE[:COUNT[:SEED]]], with whole numbers, then :blocks if wanted"
        )
    size, count, seed = (int(word) for word in (*words, *(str(SIZE), str(COUNT), "0")[len(words) :]))
    require_seed(seed)
    smallest = pathfinder.SMALLEST if kind == "pathfinder" else SMALLEST
    if not smallest <= size <= LARGEST or size % BLOCKS:
        raise ValueError(
            f"{source}: a picture has {smallest} … {LARGEST} pixels a side, a multiple of {BLOCKS}, not {size}"
        )
    if not 2 <= count <= MOST:
        raise ValueError(f"{source}: from 2 to {MOST:,} pictures are drawn, not {count:,}")
    channels = 3 if kind == "colors" else 1
    return Pictures(source, size, size, channels, order, count, kind=kind, seed=seed)


def _of_folder(source: str, folder: Path, order: Order) -> Pictures:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder")
    files = _files(folder)
    if len(files) < 2:
        raise ValueError(f"{folder}: {len(files)} PNG files: at least two are needed")
    first = _open(files[0])
    height, width, channels = first.shape
    if first.size > MOST_PIXELS:
        raise ValueError(
            f"{files[0]}: {width} × {height} pixels are {first.size:,} tokens, above {MOST_PIXELS:,}: make them smaller"
        )
    place_pixels(height, width, order)
    return Pictures(source, height, width, channels, order, len(files), folder=folder)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.png") if path.is_file() and not path.name.startswith("."))


def _read_file(path: Path, expected: Pictures) -> Picture:
    picture = _open(path)
    if picture.shape != (expected.height, expected.width, expected.channels):
        height, width, channels = picture.shape
        raise ValueError(
            f"{path}: {width} × {height} pixels of {channels} numbers, where the first file has {expected.width} × "
            f"{expected.height} of {expected.channels}: all must be alike"
        )
    return picture


def _open(path: Path) -> Picture:
    """The numbers of a PNG file, gray or in red, green and blue."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ValueError(f"{path}: PNG files need Pillow: pip install 'seqloom[images]'") from None
    try:
        with Image.open(path, formats=("PNG",)) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{path}: {image.width} × {image.height} pixels are too many: make it smaller")
            if image.mode not in ("1", "L", "P", "RGB"):
                raise ValueError(
                    f"{path}: a picture of mode {image.mode}: save it as gray or RGB, without transparency"
                )
            array = np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise ValueError(f"{path} is no readable PNG file: {str(error).splitlines()[0]}") from None
    return array.reshape(*array.shape[:2], -1)
