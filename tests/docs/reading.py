"""Reads pages for readers in tests: the tables of Markdown, and words of our own that readers do not know."""

import re

TABLE_COLUMNS = 8
"""the most columns of the table of docs/choose.md"""
PRIVATE = re.compile(r"settle|observed once|to the host|the board\b|floor of", re.I)
"""what readers are told in other words: significant, no clear difference, one run; the Llama block; the comparison"""


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, line by line; the line under the head is left out."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not inside:
                found.append([])
            if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                found[-1].append(cells)
        inside = line.startswith("|")
    return found


def private_words(text: str) -> list[str]:
    """The words of our own in a text, each with what stands around it."""
    return [text[max(0, found.start() - 30) : found.end() + 30] for found in PRIVATE.finditer(text)]
