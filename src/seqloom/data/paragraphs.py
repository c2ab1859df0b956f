"""Hard line wraps taken out of paragraphs."""

import re

# horizontal blanks before the break go with it; the next line must begin with a visible character
_WRAP = re.compile(r"(?<=\S)[^\S\n]*\n(?=\S)")


def unwrap(text: str) -> str:
    r"""Joins the lines of each paragraph with one blank.

    The rule: a single `\n` between two lines that are not blank becomes a blank, and blanks at the end of the first
    go; unless the next line is indented, as verse, lists and addresses mostly are: then the break stays. Blank lines
    separate paragraphs and stay as they are. Verse that is not indented is joined; `unwrap=False` keeps it.
    """
    return _WRAP.sub(" ", text)
