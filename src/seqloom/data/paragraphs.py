"""Removes hard line wraps from paragraphs."""

import re

# spaces and tabs before the line break are removed too; the next line must begin with a visible character
_WRAP = re.compile(r"(?<=\S)[^\S\n]*\n(?=\S)")


def unwrap(text: str) -> str:
    r"""Joins the lines of each paragraph with one space.

    A single `\n` between two lines with text becomes a space, and spaces at the end of the first line are removed. The
    break stays where the next line is indented, as in most verse, lists and addresses. Empty lines, which separate
    paragraphs, stay as they are. Verse that is not indented is joined too; the setting `unwrap=False` keeps it.
    """
    return _WRAP.sub(" ", text)
