"""Patterns as letters: a row for each query, a column for each key.

    w  a window or a block of neighbors        d  every d-th token        s  the ends of segments
    b  a block that another block attends to     g  a global token          r  a random block        .  not attended to

Where two parts of a pattern overlap, the letter is that of the first part.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from seqloom.ops.attention.patterns import (
    Columns,
    Dilated,
    Neighbors,
    Pattern,
    Permuted,
    RandomBlocks,
    Raster,
    Summary,
    Union,
    Within,
)
from seqloom.ops.attention.sparse import heads_of

LETTERS: dict[type[Pattern], str] = {
    Neighbors: "w",
    Raster: "w",
    Dilated: "d",
    Summary: "s",
    Permuted: "b",
    Columns: "g",
    RandomBlocks: "r",
}


def draw_pattern(pattern: Pattern, T: int) -> list[str]:
    """The pattern over T tokens, as T rows of T letters."""
    time = torch.arange(T)
    return rows((letter, part.of(T)(time[:, None], time)) for letter, part in _parts(pattern))


def by_heads(patterns: Sequence[Pattern], T: int) -> dict[str, list[str]]:
    """The drawing of each different pattern, by the names of the heads that have it."""
    groups = heads_of(patterns)
    if len(groups) == 1:
        return {"all heads": draw_pattern(patterns[0], T)}
    return {_name_heads(heads): draw_pattern(pattern, T) for pattern, heads in groups.items()}


def rows(masks: Iterable[tuple[str, Tensor]]) -> list[str]:
    """Rows of letters: for each pair the letter of the first mask (Tq, Tk) that is True there."""
    marks: list[list[str]] = []
    for letter, mask in masks:
        marks = marks or [["."] * mask.shape[1] for _ in mask]
        for i, j in mask.nonzero().tolist():
            if marks[i][j] == ".":
                marks[i][j] = letter
    return ["".join(row) for row in marks]


def _parts(pattern: Pattern) -> list[tuple[str, Pattern]]:
    """The parts of a pattern, each with its letter."""
    if isinstance(pattern, Union):
        return [inner for part in pattern.parts for inner in _parts(part)]
    if isinstance(pattern, Within):
        return [(letter, Within(part, pattern.context)) for letter, part in _parts(pattern.inner)]
    if isinstance(pattern, RandomBlocks):
        global_blocks = replace(pattern, half=-1, random=0)
        window = replace(pattern, random=0, first=0, last=0)
        return [("g", global_blocks), ("w", window), ("r", pattern)]
    return [(LETTERS[type(pattern)], pattern)]


def _name_heads(heads: Sequence[int]) -> str:
    return f"head {heads[0]}" if len(heads) == 1 else f"heads {', '.join(map(str, heads))}"
