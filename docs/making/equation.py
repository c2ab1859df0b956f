"""A mixer's docstring in the parts of its page: a summary, its own equation, notes, and its source.

The equation is the first indented block of the docstring of its settings where there is one, as each Extractor has, or
else of its file. Paragraphs of a file that several kinds share, which begin with a name in backticks, are for the kind
or for the setting of that name alone.
"""

import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from typing import final

from seqloom.core.mixer_config import MixerConfig

WIDTH = 84
"""columns of an equation; a remark to the right of a wider one goes below it"""
_REMARK = re.compile(r"^( {4,}\S.*\S|) {3,}(\S.*)$")
"""a line with a remark on its right, or one that goes on with the remark of the line before"""


@final
@dataclass(frozen=True)
class Parts:
    """Markdown of the parts."""

    summary: str
    equation: str
    notes: str
    source: str


def parts(kind: str, config: type[MixerConfig]) -> Parts:
    """The parts of a kind."""
    file = _paragraphs(sys.modules[config.__module__].__doc__ or "")
    own = _paragraphs(inspect.cleandoc(config.__doc__ or ""))
    own_equation = [text for text in own if _is_block(text)]
    at = next((number for number, text in enumerate(file) if text.startswith("Source:")), len(file))
    blocks = [text for text in file[:at] if _is_block(text)]
    words = [text for text in file[1:at] if not _is_block(text)]
    if own_equation:
        words = [*own[2:], *(text for text in words if _is_of(text, kind, config))]
        return Parts(own[0], fenced(own_equation[0]), "\n\n".join(words), "\n\n".join(file[at:]))
    notes = [fenced(text) if _is_block(text) else text for text in file[1:at] if text not in blocks[:1]]
    return Parts(file[0], fenced(blocks[0]) if blocks else "", "\n\n".join(notes), "\n\n".join(file[at:]))


def fenced(block: str) -> str:
    """An indented block as a block of code of at most `WIDTH` columns where its remarks can go below their lines."""
    lines = [part for line in block.splitlines() for part in _narrow(line)]
    return "```text\n" + textwrap.dedent("\n".join(lines)) + "\n```"


def _narrow(line: str) -> list[str]:
    """A line; of one that is too wide the equation, and below it the remark that stood on its right."""
    found = _REMARK.match(line)
    if len(line) <= WIDTH or found is None:
        return [line]
    remark = textwrap.wrap(found[2], WIDTH - 8)
    return [*filter(None, [found[1]]), *(" " * 8 + part for part in remark)]


def _paragraphs(text: str) -> list[str]:
    """The paragraphs; the lines of one equation stay together, with the empty lines between them."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.rstrip()):
        if found and _is_block(paragraph) and _is_block(found[-1]):
            found[-1] += f"\n\n{paragraph}"
        else:
            found.append(paragraph if _is_block(paragraph) else paragraph.strip("\n"))
    return [paragraph for paragraph in found if paragraph.strip()]


def _is_block(paragraph: str) -> bool:
    return paragraph.startswith("    ")


def _is_of(text: str, kind: str, config: type[MixerConfig]) -> bool:
    """Whether a paragraph is about all kinds of its file, or about this one or a setting that it has."""
    named = re.match(r"`(\w+)`", text)
    return named is None or named[1] == kind or named[1] in config.model_fields
