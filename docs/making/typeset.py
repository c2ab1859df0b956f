"""The equations of a mixer's page as HTML for the site, where KaTeX typesets them.

Each formula is an element with its TeX in `data-tex` and its unicode as text, which stays where no script runs. The
pages of the repository keep their equations as text: only the site calls this.
"""

import html
import re
from collections.abc import Callable
from typing import final

from docs.making.notation import Run, runs

_BLOCK = re.compile(r"```text\n(.*?)\n```", re.S)
_SECTION = re.compile(r"(?<=^## Equation\n)(.*?)(?=^## |\Z)", re.M | re.S)
_SPAN = re.compile(r"(^```.*?^```)|`([^`\n]*\^\[[^`\n]*)`", re.M | re.S)
"""a block of code, or a code span with a name in the notation of the Extractor paper, such as `x_i^[ext]`"""
_GAP = re.compile(r"\s{2,}")
DEEP = 8
"""columns from which on an indented line is part of the equation and no remark"""


@final
class Typeset:
    """Typesets pages, and counts the equations and those that stay text."""

    def __init__(self) -> None:
        self.blocks = 0
        self.left: list[str] = []

    def page(self, markdown: str, path: str) -> str:
        """A mixer's page with the blocks of its section `Equation` as HTML."""
        return _SECTION.sub(
            lambda section: _BLOCK.sub(lambda block: self._typeset(equation, block[1], block[0], path), section[0]),
            markdown,
        )

    def paper(self, markdown: str, path: str) -> str:
        """The page on the Extractor paper, with its formulas as HTML."""
        return _SPAN.sub(
            lambda found: found[1] or self._typeset(formula, found[2], found[0], path),
            markdown,
        )

    def summary(self) -> str:
        """How many equations are typeset, and which are not."""
        left = "".join(f"; one of {reason}" for reason in self.left)
        return f"{self.blocks - len(self.left)} of {self.blocks} equations are typeset{left}"

    def _typeset(self, read: Callable[[str], str], text: str, otherwise: str, path: str) -> str:
        self.blocks += 1
        try:
            return read(text)
        except ValueError as error:
            self.left.append(f"{path} stays text: {error}")
            return otherwise


def formula(text: str) -> str:
    """A formula inside of a line of Markdown as HTML, in which nothing reads as Markdown."""
    elements = "".join(_element(run, "") if run.tex else html.escape(run.text) for run in runs(text))
    return re.sub(r"[\\_*\[\]]", lambda sign: f"&#{ord(sign[0])};", elements)


def equation(block: str) -> str:
    """The lines of an equation as HTML; a ValueError names what has no TeX."""
    goes_on = False
    rows = []
    for line in block.splitlines():
        indent = len(line) - len(line.lstrip())
        row = []
        for number, part in enumerate(filter(None, _GAP.split(line.strip()))):
            is_deep = number == 0 and indent >= DEEP and _is_equation(runs(part))
            is_remark = not goes_on and not is_deep and (number > 0 or indent > 0)
            row.append(_part(part, "remark" if is_remark else "formula"))
            is_label = number == indent == 0 and not _is_equation(runs(part))
            goes_on = is_label or (part.endswith(",") and not is_remark)
        rows.append(f'<div class="{"further" if indent else "line"}">{" ".join(row)}</div>')
    return f'<div class="equation">{"".join(rows)}</div>'


def _is_equation(parts: list[Run]) -> bool:
    first = next((run.tex for run in parts if run.tex), "")
    return "=" in first or "\\leftarrow" in first


def _part(text: str, name: str) -> str:
    large = r"\displaystyle " * (name == "formula")
    inner = "".join(_element(run, large) if run.tex else _words(run.text) for run in runs(text))
    return f'<span class="{name}">{inner}</span>'


def _element(run: Run, large: str) -> str:
    return f'<span class="tex" data-tex="{html.escape(large + run.tex)}">{html.escape(run.text)}</span>'


def _words(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
