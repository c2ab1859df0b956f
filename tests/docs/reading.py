"""Reads pages of Markdown for tests."""

import re

TABLE_COLUMNS = 8
"""the most columns of a table for readers"""


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
