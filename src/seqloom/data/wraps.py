r"""Hard-wrapped prose: whether lines were broken because the next word had no room, and how they are joined.

    break     a line feed between two lines with text, of which the second is not indented
    width     four fifths of the lines before a break are as wide or less
    forced    a break where the first word of the next line would have made its line wider than the width

A text is hard-wrapped prose where at least three of five breaks are forced, there are three or more, and the width is
40 or more. So prose of Project Gutenberg is joined, and code, verse, dialogue, tables and one sentence per line are
not. A character of Chinese, Japanese or Korean is two wide, and one of a script without spaces between words is a word.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

from seqloom.data.documents import WRAP, unwrap

Unwrap: TypeAlias = Literal["auto"] | bool
"""whether lines are joined: auto (of hard-wrapped prose, and without a space where its script has none), or of all"""
LEAST_BREAKS, LEAST_WIDTH, SHARE = 3, 40, 0.6
_BREAK = re.compile(r"^(.*\S)[^\S\n]*\n(?=(\S+))", re.MULTILINE)
_SPACELESS = re.compile(
    "[\u0e01-\u0e5b\u0e81-\u0edf\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff01-\uff60\U00020000-\U0003ffff]"
)
"""matches a letter or sign of Thai, Lao, Burmese, Khmer, Chinese or Japanese, which have no spaces between words"""


def is_wrapped(text: str) -> bool:
    """Whether a text is hard-wrapped prose."""
    breaks = [(_width(line), _width(_first_word(word))) for line, word in _BREAK.findall(text)]
    if len(breaks) < LEAST_BREAKS:
        return False
    width = sorted(line for line, _ in breaks)[len(breaks) * 4 // 5]
    forced = sum(line + 1 + word > width for line, word in breaks)
    return width >= LEAST_WIDTH and forced >= SHARE * len(breaks)


def join_wraps(text: str) -> str:
    """The text with the lines of its paragraphs joined, if it is hard-wrapped prose; any other text as it is."""
    return WRAP.sub(partial(_joining_text, text), text) if is_wrapped(text) else text


def change_of(unwrap_setting: Unwrap) -> Callable[[str], str] | None:
    """What the setting `data.unwrap` does to a text; None where it changes none."""
    if unwrap_setting == "auto":
        return join_wraps
    return unwrap if unwrap_setting else None


def _joining_text(text: str, wrap: re.Match[str]) -> str:
    """What stands in place of a break: a space, unless a letter next to it is of a script without spaces."""
    neighbors = text[wrap.start() - 1], text[wrap.end()]
    return "" if any(map(_SPACELESS.match, neighbors)) else " "


def _first_word(word: str) -> str:
    return word[0] if _SPACELESS.match(word) else word


def _width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
