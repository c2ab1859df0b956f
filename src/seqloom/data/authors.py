"""A text divided by author: no author of the training texts is in validation or test.

    author of a document    in manifest.csv of the folder, the column `author` of the row that has the file's name in
                            its column `file`; else a line "Author: …" among the first 100 lines, as in Project
                            Gutenberg's files; else the text before " - " in the file's name
    same author             names with the same last and first name, as "Wiggin, Kate Douglas" and "Kate D. Wiggin"
    group                   authors who share a document (a document names several with ";" or " and " between them)
    division                groups in the order of sha256(name) go to test until it has `part` of all characters; a
                            group that would bring it above 1.25 `part` is skipped. The groups that are left go to
                            validation by the same rule, and the rest to training
    folds                   with `folds` validation stays, and all other groups are dealt (module `folds`); test is
                            one fold, or empty where none is named, and training all others

The division depends on the text and its authors alone, so it is the same for every model and every seed.
"""

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import final

from seqloom.data.documents import Document, Documents
from seqloom.data.folds import deal
from seqloom.data.split import side

PARTS = ("training", "validation", "test")
MANIFEST = "manifest.csv"
HEADER = 100
"""the first lines of a text, in which its author is looked for"""
MOST = 1.25
"""a group of authors is skipped where it would bring a part above this multiple of `part`"""
SUFFIXES = frozenset({"jr", "sr", "ii", "iii", "iv", "esq"})
"""words after a name that are no part of it"""
_YEARS = re.compile(r"\W*\d{3,4}\W*(\d{2,4}\W*)?")
"""years of birth and death, as library catalogues write them: 1832-1898, (1865), 1870-"""
_LINE = re.compile(r"^\s*Author:\s*(\S.*?)\s*$", re.IGNORECASE | re.MULTILINE)


@final
@dataclass(frozen=True)
class Side:
    """The size of one part of a division, for messages."""

    name: str
    authors: tuple[str, ...]
    documents: int
    characters: int

    def __str__(self) -> str:
        size = f"{self.documents:,} documents of {len(self.authors):,} authors, {self.characters:,} characters"
        return f"{self.name}: {size}: {'; '.join(self.authors)}"


@final
@dataclass(frozen=True)
class Division:
    """Which part (training, validation or test) each document is in."""

    parts: bytes
    """the index in `PARTS` of each document, in order"""
    authors: tuple[str, ...]
    """the authors of each document, as `Side.authors` names them"""
    sides: tuple[Side, ...]

    def side(self, documents: Documents, name: str) -> Documents:
        """The documents of a part, in their order."""
        return side(documents, self.parts, PARTS.index(name))

    def authors_of(self, name: str) -> list[str]:
        """The authors of each document of a part, in order."""
        number = PARTS.index(name)
        return [authors for authors, part in zip(self.authors, self.parts, strict=True) if part == number]

    def __str__(self) -> str:
        return "\n".join(str(side) for side in self.sides)


def divide(
    documents: Documents, folder: Path, part: float, folds: int | None = None, fold: int | None = None
) -> Division:
    """Divides documents by author, with `folds` so that test is the fold of number `fold`, or empty without one.

    ValueError where a document has no author, or where a part would be empty.
    """
    manifest = _manifest(folder)
    names: list[tuple[str, ...]] = []
    sizes: list[int] = []
    for document in documents:
        names.append(authors(document, manifest, str(folder)))
        sizes.append(len(document.text))
    groups = _groups(names)
    characters: dict[str, int] = {}
    for group, size in zip(groups, sizes, strict=True):
        characters[group] = characters.get(group, 0) + size
    part_of = _parts_of_groups(characters, part, str(folder))
    if folds is not None:
        part_of = _with_folds(part_of, characters, folds, fold, str(folder))
    parts = bytes(part_of[group] for group in groups)
    titles = {group: " with ".join(sorted(_spellings(group, groups, names))) for group in characters}
    sides = tuple(
        Side(
            name,
            tuple(sorted(titles[group] for group in characters if part_of[group] == number)),
            parts.count(number),
            sum(size for group, size in characters.items() if part_of[group] == number),
        )
        for number, name in enumerate(PARTS)
    )
    return Division(parts, tuple(titles[group] for group in groups), sides)


def _with_folds(
    part_of: Mapping[str, int], characters: Mapping[str, int], folds: int, fold: int | None, source: str
) -> dict[str, int]:
    """The parts where all but validation is dealt into folds, and test is one of them or empty."""
    training, validation, test = range(len(PARTS))
    others = {group: size for group, size in characters.items() if part_of[group] != validation}
    fold_of = deal(others, folds, source)
    return {
        group: validation if group not in fold_of else test if fold_of[group] == fold else training for group in part_of
    }


def authors(document: Document, manifest: Mapping[str, str], source: str) -> tuple[str, ...]:
    """The authors of a document, as its source spells them. ValueError where none is named."""
    header = "\n".join(document.text.split("\n", HEADER)[:HEADER])
    name_start, dash, _ = PurePosixPath(document.name).stem.partition(" - ")
    line = _LINE.search(header)
    names = manifest.get(document.name) or (line[1] if line else None) or (name_start.strip() if dash else None)
    people = [re.sub(r"\(.*?\)", "", name).strip() for name in re.split(r";|\band\b", names or "")]
    if not any(people):
        raise ValueError(
            f"{source}: no author is named for {document.name}: write {MANIFEST} with the columns file and "
            'author, a line "Author: …" into its header, or call it "AUTHOR - TITLE.txt"'
        )
    return tuple(person for person in people if person)


def key(author: str) -> str:
    """The last and first name, by which authors are compared, the same for "Carroll, Lewis" and "Lewis Carroll".

    Years and suffixes such as Jr. are left out: "Carroll, Lewis, 1832-1898" is the same author. ValueError where no
    name is left.
    """
    parts = [
        [word for word in part.split() if word.strip(".") not in SUFFIXES and not _YEARS.fullmatch(word)]
        for part in author.casefold().split(",")
    ]
    named = [words for words in parts if words]
    if not named:
        raise ValueError(f'{author!r} is no author\'s name: write it as "Carroll, Lewis" or "Lewis Carroll"')
    words = [*named[1], *named[0]] if len(named) > 1 else named[0]
    return " ".join(dict.fromkeys((words[-1], words[0])))


def _manifest(folder: Path) -> dict[str, str]:
    """The author of each file by manifest.csv; {} where the folder has none."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a readable table ({error})") from None
    if rows and not {"file", "author"} <= rows[0].keys():
        raise ValueError(f"{path}: it has no columns file and author")
    return {row["file"]: row["author"] for row in rows if row["file"] and row["author"]}


def _groups(names: Iterable[tuple[str, ...]]) -> list[str]:
    """The group of each document; documents that share an author, directly or through other documents, are in one."""
    keys = [[key(name) for name in people] for people in names]
    parents: dict[str, str] = {}  # a forest with one tree per group, which is named by its root

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            name = parents[name]
        return name

    for first, *others in keys:
        for other in others:
            low, high = sorted((root(first), root(other)))
            parents[high] = low
    return [root(people[0]) for people in keys]


def _spellings(group: str, groups: list[str], names: list[tuple[str, ...]]) -> set[str]:
    """The authors of a group, each in one spelling."""
    spelling: dict[str, str] = {}
    for document_group, people in zip(groups, names, strict=True):
        if document_group == group:
            spelling |= {key(name): name for name in people}
    return set(spelling.values())


def _parts_of_groups(characters: Mapping[str, int], part: float, source: str) -> dict[str, int]:
    """The index in `PARTS` that each group of authors goes to."""
    if not 0 < part < 0.5:
        raise ValueError(f"held_out is taken twice, for validation and for test: it must be below 0.5, not {part}")
    target = part * sum(characters.values())
    order = sorted(characters, key=lambda group: hashlib.sha256(group.encode()).digest())
    training, validation, test = range(len(PARTS))
    part_of = dict.fromkeys(order, training)
    for number in (test, validation):
        total = 0
        for group in order:
            if part_of[group] == training and total < target and total + characters[group] <= MOST * target:
                part_of[group] = number
                total += characters[group]
    empty = [name for number, name in enumerate(PARTS) if number not in part_of.values()]
    if empty:
        raise ValueError(
            f"{source}: {len(order)} authors cannot be divided so that {empty[0]} has about {part:.0%} of the text: "
            "add texts of other authors, or choose a larger data.held_out"
        )
    return part_of
