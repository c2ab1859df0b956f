"""Documents from where they lie: text files, folders, JSON lines, and the corpora that have a name.

gutenberg-children         100 children's books, downloaded once (`gutenberg.py`)
stories[:COUNT[:SEED]]     generated stories, one a document; 20000 and seed 0 unless said
anything else              a path; write ./stories for a folder of that name
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.core.available_memory import require_memory
from seqloom.core.files import open_regular
from seqloom.core.seeds import require_seed
from seqloom.data import gutenberg

_SUFFIXES = (".txt", ".md", ".text")
_STORIES = 20000
_STORY_BYTES = 500
"""of memory that a story takes at least, its name included"""


@final
@dataclass(frozen=True)
class Document:
    r"""One text: its name, for messages, and its content, with `\n` line ends and no byte-order mark."""

    name: str
    text: str


def read(source: str | Path, *, cache: str | Path | None = None) -> list[Document]:
    """The documents of a source, in a fixed order; none is empty.

    A folder's .txt, .md and .text files are read in the order of their paths, subfolders too; hidden files and READMEs
    are no documents. A .jsonl file holds one document a line, in the string field "text". Every other file is one text.
    Raises OSError or ValueError, in one line that names the file: not there, not readable (a subfolder too), no regular
    file, larger than the memory, empty, binary, not UTF-8 (with the byte offset), a wrong line of a .jsonl file (with
    its number), a folder without text.
    """
    name = str(source)
    if name == "gutenberg-children":
        return [Document(f"gutenberg {id}", text) for id, text in gutenberg.books(cache=cache)]
    if name == "stories" or name.startswith("stories:"):
        return _stories(name)
    path = _path(name)
    if path.is_dir():
        return list(_folder(path))
    if not path.exists():
        names = "gutenberg-children and stories are the named corpora"
        raise FileNotFoundError(f"{path}: there is no such file or folder ({names})")
    if path.suffix.lower() == ".jsonl":
        return _json_lines(path)
    return [Document(path.name, _text(path))]


def _path(name: str) -> Path:
    if "\0" in name:
        raise ValueError(f"{name!r} is no path: it holds a null character")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # there is no such user, or this one has no home
        raise ValueError(f"{name}: {str(error).rstrip('.').lower()}; write the whole path") from None


def _folder(folder: Path) -> Iterator[Document]:
    found = {path.relative_to(folder): path for path in _texts(folder)}
    if not found:
        raise ValueError(f"{folder}: no text in this folder (looked for {', '.join(_SUFFIXES)})")
    for short in sorted(found, key=lambda short: short.as_posix()):
        yield Document(short.as_posix(), _text(found[short]))


def _texts(folder: Path) -> Iterator[Path]:
    """The texts below a folder, without what is hidden and READMEs. OSError for a folder that cannot be read."""

    def stop(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = Path(place) / name
            if path.suffix.lower() in _SUFFIXES and not name.startswith(".") and path.stem.lower() != "readme":
                yield path


def _text(path: Path) -> str:
    raw = _bytes(path)
    if (nul := raw.find(0)) >= 0:
        raise ValueError(f"{path}: binary or UTF-16, not UTF-8 text (a NUL byte at offset {nul})")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 at byte offset {error.start}; convert it to UTF-8") from error
    text = _plain(text)
    if not text.strip():
        raise ValueError(f"{path}: empty")
    return text


def _bytes(path: Path) -> bytes:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        require_memory(f"reading {path}", 2 * size, "cut it into several files and use fewer of them")
        return file.read(size)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _json_lines(path: Path) -> list[Document]:
    documents, blank = [], 0
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error})") from error
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise ValueError(f'{path}, line {number}: no string field "text"')
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{path}, line {number}: half a surrogate pair, which is no UTF-8") from error
        text = _plain(text)
        if text.strip():
            documents.append(Document(f"{path.name}:{number}", text))
        else:
            blank += 1
    if not documents:
        raise ValueError(f"{path}: empty: no line has any text")
    if blank:
        print(f"{path}: {blank} lines have no text and were left out", file=sys.stderr)
    return documents


def _stories(name: str) -> list[Document]:
    from seqloom.data.stories import corpus

    numbers = name.split(":")[1:]
    if len(numbers) > 2 or not all(number.isascii() and number.isdigit() and len(number) < 100 for number in numbers):
        raise ValueError(f"{name[:100]}: say stories, stories:COUNT or stories:COUNT:SEED, with whole numbers")
    count, seed = (int(numbers[0]) if numbers else _STORIES), (int(numbers[1]) if len(numbers) > 1 else 0)
    require_seed(seed)
    if count < 1:
        raise ValueError(f"{name}: at least one story is needed")
    require_memory(f"the text of {count:,} stories", _STORY_BYTES * count, "ask for fewer, as stories:20000")
    return [Document(f"story {number}", text) for number, text in enumerate(corpus(count, seed))]
