"""The cells of a heat map: averages of a large array, and runs of one colour as short strokes."""

from collections.abc import Sequence
from itertools import groupby
from math import ceil, fsum, isfinite

MOST = 96  # cells of a side


def averaged(values: Sequence[Sequence[float]], most: int = MOST) -> tuple[list[list[float | None]], int, int]:
    """The array in at most `most` × `most` cells, and how many rows and columns of it one cell covers.

    Each cell is the mean of the finite values in its block, None where there is none; the blocks of the last row and
    column may be smaller.
    """
    tall, wide = max(1, ceil(len(values) / most)), max(1, ceil(len(values[0]) / most))
    return (
        [
            [
                _mean([value for row in values[top : top + tall] for value in row[left : left + wide]])
                for left in range(0, len(values[0]), wide)
            ]
            for top in range(0, len(values), tall)
        ],
        tall,
        wide,
    )


def strokes(steps: Sequence[Sequence[int | None]]) -> dict[int, str]:
    """For each colour step the `d` of a path of horizontal strokes, one unit tall, over cells of one unit.

    Row r is stroked along y = r; neighbours of one colour are one stroke. A stroke costs a third of a <rect>.
    """
    parts: dict[int, list[str]] = {}
    for row, line in enumerate(steps):
        column = 0
        for step, members in groupby(line):
            length = len(list(members))
            if step is not None:
                parts.setdefault(step, []).append(f"M{column} {row}h{length}")
            column += length
    return {step: "".join(found) for step, found in sorted(parts.items())}


def _mean(block: Sequence[float]) -> float | None:
    finite = [value for value in block if isfinite(value)]
    return fsum(finite) / len(finite) if finite else None
