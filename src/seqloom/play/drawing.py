"""Models that were trained on pictures: their texts are drawn while they come.

    prompt = FRAME, or FRAME and the upper half of a picture                               (`seqloom.data.pictures`)

A picture is sent again whenever as many numbers have come as a row of it has. Pixels that are missing are blue.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

from typing_extensions import override

from seqloom.data.pictures import FRAME, PREFIX, Pictures, decode_picture, encode_picture, read_pictures
from seqloom.data.pictures.text import ZERO
from seqloom.generation.requests import Request
from seqloom.play.column import Column, Event, TextColumn
from seqloom.play.writing import Writing
from seqloom.report.charts.picture import paint, pixel_lines
from seqloom.runs.about import describe
from seqloom.runs.layout import Run
from seqloom.runs.steps import newest_first
from seqloom.training.objectives import objective_of

MISSING = (70, 90, 140)
"""red, green and blue of a pixel that has not come yet"""
WRITING = ("next_token", "exits")
"""the objectives of models that write"""


@final
class PictureColumn(Column):
    """Pictures that are drawn number by number."""

    def __init__(self, name: str, folder: Path, asked: Writing, pictures: Pictures) -> None:
        self._pictures = pictures
        self._example = encode_picture(pictures.example(asked.seed).picture, pictures.order) if asked.half else ""
        given = self._example[: 1 + pictures.height // 2 * pictures.width * pictures.channels] or FRAME
        update = {"prompt": given, "max_tokens": pictures.numbers + 1 - len(given), "stop": []}
        super().__init__(name, folder, asked.model_copy(update=update))

    @override
    def describe(self) -> Event:
        example = paint_text(self._pictures, self._example) if self._example else None
        return {**super().describe(), "picture": paint_text(self._pictures, self.asked.prompt), "example": example}

    @override
    def describe_changes(self, request: Request, first: int, count: int) -> Iterator[Event]:
        yield from self.describe_tokens(request, first, count)
        row = self._pictures.width * self._pictures.channels
        if count // row > first // row or request.end is not None:
            text = "".join(token.text for token in request.tokens[:count])
            yield {"png": paint_text(self._pictures, self.asked.prompt + text)}


def paint_text(pictures: Pictures, text: str) -> str:
    """The picture of a text so far, as the `data:` address of a PNG."""
    shape = pictures.height, pictures.width, pictures.channels
    numbers = decode_picture(text, *shape, pictures.order)
    ones = chr(ZERO + 1) * len(text.removeprefix(FRAME))
    is_missing = (decode_picture(ones, *shape, pictures.order) == 0).any(2)
    lines = pixel_lines(numbers.reshape(-1).tolist(), shape)
    for y, x in zip(*is_missing.nonzero(), strict=True):
        lines[y][x] = MISSING
    return paint(lines)


def column_of(name: str, folder: Path, asked: Writing) -> Column:
    """The texts of a run, drawn where it was trained on pictures.

    FileNotFoundError or ValueError, in one line, where these are files that are no longer as they were.
    """
    if not draws_pictures(folder):
        return TextColumn(name, folder, asked)
    return PictureColumn(name, folder, asked, read_pictures(_source_of(folder)))


def draws_pictures(folder: Path) -> bool:
    """Whether a run was trained to write pictures, pixel after pixel."""
    return _source_of(folder).startswith(f"{PREFIX}:")


def _source_of(folder: Path) -> str:
    """The text whose next tokens a run was trained on, as its newest checkpoint states it; empty where it does not."""
    try:
        newest = next(iter(newest_first(Run(folder).checkpoints)))
        source: Any = describe(newest).meta["config"]["data"]["source"]
        objective = objective_of(Run(folder)).kind
    except (StopIteration, LookupError, TypeError, OSError, ValueError):
        return ""
    return source if objective in WRITING and isinstance(source, str) else ""
