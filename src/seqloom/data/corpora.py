"""Reads documents from text files, folders, JSON lines, Parquet and datasets, and makes the corpora that have a name.

gutenberg-children         100 children's books, downloaded once (`gutenberg.py`)
stories[:COUNT[:SEED]]     generated stories, one per document; by default 20000 stories of seed 0
markov:STATES:ORDER:SEED   1000 documents of 1000 letters from a Markov chain; :variable at the end: of variable order
hmm:STATES:SYMBOLS:SEED    1000 documents of 1000 letters from a hidden Markov chain
episodes:ENV:POLICY        recorded actions of agents, not text: see `seqloom.data.episodes`
anything else              a path; write ./stories for a folder of that name
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.core.available_memory import require_memory
from seqloom.core.files import open_regular
from seqloom.core.seeds import require_seed
from seqloom.data import columns, gutenberg
from seqloom.data.documents import Document, Documents

if TYPE_CHECKING:
    from seqloom.data.markov import Chain, HiddenChain

_SUFFIXES = (".txt", ".md", ".text")
_JSON_LINES = ".jsonl"
_PARQUET = ".parquet"
_STORIES = 20000
_MARKOV = 1000
"""documents of a Markov chain"""
_STORY_BYTES = 500
"""bytes of memory that a story takes at least, with its name"""
_NAMES, _NAME = 10, 40
"""the most fields that an error lists, and the most characters of each"""


def read(source: str | Path, *, column: str = "text", cache: str | Path | None = None) -> Documents:
    """The documents of a source, in a fixed order; none is empty.

    Of a folder and its subfolders, .txt, .md and .text files are read in the order of their paths, without hidden files
    and READMEs; if there are none, its .parquet files in the same order. A folder that `datasets` saved is read by
    `columns.saved`. A .jsonl file has one document per line, in its string field `column`; a .parquet file has one per
    row. Any other file is one document.

    Parquet files and saved datasets are read again in every pass; everything else is held in memory.

    Raises OSError or ValueError, in one line that names the file, where a file or a subfolder is missing, unreadable,
    not regular, larger than the memory, empty, binary, or not UTF-8 (with the byte offset); for a wrong line of a
    .jsonl file (with its number); for a folder without text; and as `columns.parquet` does.
    """
    name = str(source)
    if name == "gutenberg-children":
        books = gutenberg.books(cache=cache)
        return Documents.of([Document(f"gutenberg {id}", text) for id, text in books], name)
    if (generated := name.partition(":")[0]) in _GENERATED:
        return _GENERATED[generated](name)
    if generated == "pairs":
        raise ValueError(f"{name[:100]}: pairs are for an encoder-decoder, a model of kind seq2seq: seq2seq/dates")
    if generated == "episodes":
        raise ValueError(f"{name[:100]}: episodes are no text: a model of kind decision learns them, decision/cartpole")
    path = _path(name)
    if path.is_dir():
        return _folder(path, column)
    if not path.exists():
        names = "gutenberg-children, stories, markov and hmm are the named corpora"
        raise FileNotFoundError(f"{path}: there is no such file or folder ({names})")
    if path.suffix.lower() == _JSON_LINES:
        return _json_lines(path, column)
    if path.suffix.lower() == _PARQUET:
        return columns.parquet([path], column, name, _plain)
    return Documents.of([Document(path.name, read_text_file(path))], name)


def require_column(source: str | Path) -> None:
    """ValueError where a source is there and has no columns, so that a named column would be ignored.

    OSError for a folder that cannot be read. What is missing, or neither text nor generated, is left to `read`.
    """
    name = str(source)
    if name == "gutenberg-children" or name.partition(":")[0] in _GENERATED:
        has_columns = False
    elif (path := _path(name)).is_dir():
        texts = (file for file in _files(path)[0] if file.suffix.lower() in _SUFFIXES)
        has_columns = columns.is_saved(path) or next(texts, None) is None
    else:
        has_columns = not path.is_file() or path.suffix.lower() in (_JSON_LINES, _PARQUET)
    if not has_columns:
        raise ValueError(
            f"{name[:100]} has no columns: leave out --column, which is for .jsonl, Parquet and folders of datasets"
        )


def _path(name: str) -> Path:
    if "\0" in name:
        raise ValueError(f"{name!r} is no path: it holds a null character")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # there is no such user, or this one has no home
        raise ValueError(f"{name}: {str(error).rstrip('.').lower()}; write the whole path") from None


def _folder(folder: Path, column: str) -> Documents:
    """The documents of a folder: its text files, or its Parquet files if it has no text."""
    if columns.is_saved(folder):
        return columns.saved(folder, column, _plain)
    files, skipped = _files(folder)
    texts = [path for path in files if path.suffix.lower() in _SUFFIXES]
    tables = [path for path in files if path.suffix.lower() == _PARQUET]
    if not texts and tables:
        documents = columns.parquet(tables, column, str(folder), _plain)
    elif texts:
        skipped.update(f"{_PARQUET} files, next to texts" for _ in tables)
        text_documents = [Document(path.relative_to(folder).as_posix(), read_text_file(path)) for path in texts]
        documents = Documents.of(text_documents, str(folder))
    else:
        raise ValueError(f"{folder}: no text in this folder (looked for {', '.join((*_SUFFIXES, _PARQUET))})")
    documents.skipped.update(skipped)
    return documents


def _files(folder: Path) -> tuple[list[Path], Counter[str]]:
    """The text and Parquet files below a folder, ordered by path, and how many other files it has, by reason.

    Hidden files and folders are ignored. OSError for a folder that cannot be read.
    """

    def raise_error(error: OSError) -> None:
        raise error

    files: list[Path] = []
    skipped: Counter[str] = Counter()
    for parent, folders, names in os.walk(folder, onerror=raise_error):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent) / name
            suffix = path.suffix.lower()
            if name.startswith("."):
                skipped["hidden files"] += 1
            elif suffix not in (*_SUFFIXES, _PARQUET):
                skipped[f"{suffix or 'other'} files"] += 1
            elif path.stem.lower() == "readme":
                skipped["READMEs"] += 1
            else:
                files.append(path)
    return sorted(files, key=lambda path: path.relative_to(folder).as_posix()), skipped


def read_text_file(path: Path) -> str:
    r"""The text of a file, with `\n` line ends. ValueError where it is binary, not UTF-8 or empty."""
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
    """The contents of a file. ValueError where it is too large for the memory."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        require_memory(f"reading {path}", 2 * size, "cut it into several files and use fewer of them")
        return file.read(size)


def _plain(text: str) -> str:
    r"""The text without a byte-order mark and with `\n` line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _json_lines(path: Path, column: str) -> Documents:
    """A document for each line of a .jsonl file, from its field `column`."""
    documents: list[Document] = []
    for number, line in enumerate(read_text_file(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error})") from error
        text = row.get(column) if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise ValueError(f'{path}, line {number}: no string field "{column}"; {string_fields(row)}')
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{path}, line {number}: half a surrogate pair, which is no UTF-8") from error
        documents.append(Document(f"{path.name}:{number}", _plain(text)))
    return Documents.of(documents, str(path), unit="line")


def string_fields(row: object) -> str:
    """The end of an error about a missing field: the first fields of a line that hold strings, and what to do."""
    if not isinstance(row, dict):
        return 'a line holds an object, such as {"text": "Once"}'
    names = [name for name, value in row.items() if isinstance(value, str)]
    if not names:
        return "no field of this line holds a string"
    shown = ", ".join(json.dumps(name[:_NAME]) for name in names[:_NAMES]) + (", …" if len(names) > _NAMES else "")
    return f"there is {shown}: {columns.NAME}"


def _stories(name: str) -> Documents:
    """The documents of `stories[:COUNT[:SEED]]`."""
    from seqloom.data.stories import corpus

    numbers = name.split(":")[1:]
    if len(numbers) > 2 or not all(number.isascii() and number.isdigit() and len(number) < 100 for number in numbers):
        raise ValueError(f"{name[:100]}: say stories, stories:COUNT or stories:COUNT:SEED, with whole numbers")
    count, seed = (int(numbers[0]) if numbers else _STORIES), (int(numbers[1]) if len(numbers) > 1 else 0)
    require_seed(seed)
    if count < 1:
        raise ValueError(f"{name}: at least one story is needed")
    require_memory(f"the text of {count:,} stories", _STORY_BYTES * count, "ask for fewer, as stories:20000")
    return Documents.of([Document(f"story {number}", text) for number, text in enumerate(corpus(count, seed))], name)


def chain_of(name: str | Path) -> "Chain | HiddenChain | None":
    """The Markov chain that a source names; None for a source of other text. ValueError for a wrong name."""
    return _chain(str(name)) if str(name).partition(":")[0] in ("markov", "hmm") else None


@lru_cache(maxsize=4)
def _chain(name: str) -> "Chain | HiddenChain":
    """The chain of a name `markov:…` or `hmm:…`. ValueError for a name of another form."""
    from seqloom.data.markov import chain, hidden_chain

    kind = name.partition(":")[0]
    words = name.removesuffix(":variable").split(":")[1:] if kind == "markov" else name.split(":")[1:]
    if len(words) != 3 or not all(word.isascii() and word.isdigit() and len(word) < 100 for word in words):
        form = "STATES:SYMBOLS:SEED, with whole numbers"
        if kind == "markov":
            form = "STATES:ORDER:SEED, with whole numbers, and :variable if wanted"
        raise ValueError(f"{name[:100]}: say {kind}:{form}")
    first, second, seed = map(int, words)
    if kind == "hmm":
        return hidden_chain(first, second, seed)
    return chain(first, second, seed, variable=name.endswith(":variable"))


@lru_cache(maxsize=2)  # a study reads the text of a chain once for each of its models
def _chain_text(name: str) -> Documents:
    texts = enumerate(_chain(name).documents(_MARKOV))
    return Documents.of([Document(f"document {number}", text) for number, text in texts], name)


_GENERATED: dict[str, Callable[[str], Documents]] = {"stories": _stories, "markov": _chain_text, "hmm": _chain_text}
