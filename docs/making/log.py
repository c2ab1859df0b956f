"""Writes docs/log.md, the index of the log, from the entries in docs/log/YYYY-MM/.

    docs/log/2026-11/21.md      the entries of a day, in order; an entry is
        ## title
        *decision · part, part*     `DECISIONS` names the decisions; a part is an op, a folder or a subject

A new entry goes to the end of the file of its day. `make pages` writes the index.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

LOG = Path(__file__).parents[1] / "log"
INDEX = LOG.with_suffix(".md")
DECISIONS = {
    "kept": "Kept: what was tried is in the code",
    "negative": "Negative: what was tried gained nothing, or lost, and is not in the code",
    "mended": "Mended: a fault that was found",
    "measured": "Measured: numbers, after which the code stayed as it was",
}
_ENTRY = re.compile(r"^## (.+)\n\n\*(.+?) · (.+)\*$", re.M)
_HEADING = re.compile(r"^## ", re.M)


class Entry(NamedTuple):
    """An entry, as the index lists it."""

    day: str
    title: str
    decision: str
    parts: tuple[str, ...]

    @property
    def line(self) -> str:
        """A link to the entry."""
        month, day = self.day[:7], self.day[8:]
        return f"- {self.day} · [{self.title}](log/{month}/{day}.md#{anchor(self.title)})"


def anchor(title: str) -> str:
    """The name that a heading has in a link, on GitHub and on the site alike."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def entries(folder: Path = LOG) -> list[Entry]:
    """All entries, the oldest first. ValueError for one without its decision and its parts."""
    result = []
    for path in sorted(folder.glob("*/*.md")):
        text = path.read_text(encoding="utf-8")
        found = _ENTRY.findall(text)
        if len(found) != len(_HEADING.findall(text)):
            raise ValueError(f"{path}: below each heading stands *decision · part, part*")
        for title, decision, parts in found:
            if decision not in DECISIONS:
                raise ValueError(f"{path}, {title}: the decision is one of {', '.join(DECISIONS)}, not {decision}")
            result.append(Entry(f"{path.parent.name}-{path.stem}", title, decision, tuple(parts.split(", "))))
    return result


def index(found: list[Entry], opening: str) -> str:
    """The page: its opening, then the entries by decision and by part."""
    parts = sorted({part for entry in found for part in entry.parts})
    by_decision = (
        _section(heading, (entry for entry in found if entry.decision == decision))
        for decision, heading in DECISIONS.items()
    )
    by_part = (_section(f"`{part}`", (entry for entry in found if part in entry.parts)) for part in parts)
    return "\n".join([opening.rstrip("\n"), "", "## By decision", "", *by_decision, "## By part", "", *by_part])


def _section(heading: str, found: Iterable[Entry]) -> str:
    return "\n".join([f"### {heading}", "", *(entry.line for entry in found), ""])


def page() -> str:
    """The text of docs/log.md: the opening that it has, and the index of today."""
    return index(entries(), INDEX.read_text(encoding="utf-8").partition("\n## ")[0])


def write() -> None:
    """Writes docs/log.md."""
    INDEX.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
