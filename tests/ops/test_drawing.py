"""Patterns as letters: the drawing shows the keys that queries look at."""

import pytest

from seqloom.ops.attention.drawing import by_heads, draw_pattern
from seqloom.ops.attention.patterns import RandomBlocks, Within, fixed_parts, local, merge_parts, strided_parts
from tests.ops.test_patterns import PATTERNS, T, mask


@pytest.mark.parametrize("name", PATTERNS)
def test_a_letter_marks_each_key_that_a_query_looks_at(name: str) -> None:
    letters = draw_pattern(PATTERNS[name], T)
    assert [[letter != "." for letter in row] for row in letters] == mask(PATTERNS[name], T).tolist()


def test_letters_by_hand() -> None:
    assert draw_pattern(merge_parts(strided_parts(2)), 6) == [
        "w.....",
        "ww....",
        "www...",
        ".www..",
        "d.www.",
        ".d.www",
    ]
    assert draw_pattern(Within(merge_parts(fixed_parts(2, 1)), 4), 6) == [
        "w.....",
        "ww....",
        ".sw...",
        ".sww..",
        ".s.sw.",
        "...sww",
    ]
    bigbird = draw_pattern(RandomBlocks(1, 1, 1, 1, 0, 0), 8)
    assert [row[0] for row in bigbird] == ["g"] * 8
    assert bigbird[1] == "gw......"
    assert bigbird[4].count("r") == 1
    assert bigbird[4][3:5] == "ww"


def test_heads_that_share_a_pattern_are_drawn_once() -> None:
    assert list(by_heads([local(2)] * 3, 4)) == ["all heads"]
    heads = by_heads([local(2), local(3), local(2)], 4)
    assert heads == {"heads 0, 2": draw_pattern(local(2), 4), "head 1": draw_pattern(local(3), 4)}
