"""Reads documents from text files, folders, JSON lines, Parquet and datasets, and makes the corpora that have a name.

gutenberg-children         100 children's books, downloaded once (`gutenberg.py`)
stories[:COUNT[:SEED]]     generated stories, one per document; by default 20000 stories of seed 0
markov:STATES:ORDER:SEED   1000 documents of 1000 letters from a Markov chain; :variable at the end: of variable order
hmm:STATES:SYMBOLS:SEED    1000 documents of 1000 letters from a hidden Markov chain
images:KIND or :./FOLDER   pictures, a character for each pixel and channel: see `seqloom.data.pictures`
episodes:ENV:POLICY        recorded actions of agents, not text: see `seqloom.data.episodes`
anything else              a path; write ./stories for a folder of that name
"""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom.core.available_memory import require_memory
from seqloom.core.seeds import require_seed
from seqloom.data import columns, gutenberg
from seqloom.data.documents import Document, Documents, format_counts
from seqloom.data.json_lines import SUFFIXES as JSON_LINES
from seqloom.data.text_documents import SUFFIXES, TextFile, holds_json_lines, require_separator
from seqloom.data.text_file import plain, stem_of, suffix_of

if TYPE_CHECKING:
    from seqloom.data.markov import Chain, HiddenChain

RUN = {"config.json", "metrics.jsonl"}
"""files by which the folder of a run is known, whose rows are no text"""
_PARQUET = ".parquet"
_STORIES = 20000
_MARKOV = 1000
"""documents of a Markov chain"""
_STORY_BYTES = 500
"""bytes of memory that a story takes at least, with its name"""


def read(
    source: str | Path, *, column: str = "text", separator: str | None = None, cache: str | Path | None = None
) -> Documents:
    """The documents of a source, in a fixed order; none is empty.

    Of a folder and its subfolders, .txt, .md, .text, .jsonl and .ndjson files are read in the order of their paths,
    without hidden files and READMEs; if there are none, its .parquet files in the same order. A folder that `datasets`
    saved is read by `columns.load_saved`. JSON lines, under any name, have one document per line, in the string field
    `column`, which is a.b for the field b of the object in a; a .parquet file has one per row. Any other file is one
    document, or has several with a `separator` between them (`text_documents`), except JSON, tables and markup, which
    are errors. Text files and JSON lines may be compressed (`text_file`).

    Files are read again in every pass; named corpora are held in memory.

    Raises OSError or ValueError, in one line that names the file, where a file or a subfolder is missing, unreadable,
    not regular, or of a kind that holds no plain text; for a folder without text; for a separator in a source without
    plain text; and as `columns.parquet` does. A pass raises it where a file is empty, binary, not UTF-8 (with the byte
    offset) or has changed, where a document is larger than the memory, and for a wrong line of JSON lines.
    """
    name = str(source)
    require_separator(separator)
    if name == "gutenberg-children" or name.partition(":")[0] in _GENERATED:
        _require_no_separator(separator, name)
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
        return _folder(path, column, separator)
    if not path.exists():
        names = "gutenberg-children, stories, markov and hmm are the named corpora"
        raise FileNotFoundError(f"{path}: there is no such file or folder ({names})")
    if path.suffix.lower() == _PARQUET:
        _require_no_separator(separator, name)
        return columns.parquet([path], column, name, plain)
    file = TextFile.open(path, path.name, column, separator)
    return _documents_of([file], name, file.unit, separator)


def require_column(source: str | Path) -> None:
    """ValueError where a source is there and has no columns, so that a named column would be ignored.

    OSError for a folder that cannot be read. What is missing, or neither text nor generated, is left to `read`.
    """
    name = str(source)
    if name == "gutenberg-children" or name.partition(":")[0] in _GENERATED:
        has_columns = False
    elif (path := _path(name)).is_dir():
        files = _files(path)[0]
        suffixes = {suffix_of(file) for file in files}
        tables = suffixes <= {_PARQUET} or not suffixes.isdisjoint(JSON_LINES)
        has_columns = columns.is_saved(path) or tables or any(map(_holds_json_lines, files))
    else:
        has_columns = not path.is_file() or path.suffix.lower() == _PARQUET or _holds_json_lines(path)
    if not has_columns:
        raise ValueError(
            f"{name[:100]} has no columns: leave out --column, which is for JSON lines, Parquet and folders of datasets"
        )


def _holds_json_lines(path: Path) -> bool:
    """Whether a text file is read as JSON lines."""
    return suffix_of(path) != _PARQUET and holds_json_lines(path)


def _path(name: str) -> Path:
    if "\0" in name:
        raise ValueError(f"{name!r} is no path: it holds a null character")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # there is no such user, or this one has no home
        raise ValueError(f"{name}: {str(error).rstrip('.').lower()}; write the whole path") from None


def _folder(folder: Path, column: str, separator: str | None) -> Documents:
    """The documents of a folder: its text files and JSON lines, or its Parquet files if it has no text."""
    if columns.is_saved(folder):
        _require_no_separator(separator, str(folder))
        return columns.load_saved(folder, column, plain)
    files, skipped = _files(folder)
    texts = [path for path in files if suffix_of(path) != _PARQUET]
    tables = [path for path in files if suffix_of(path) == _PARQUET]
    if not texts and tables:
        _require_no_separator(separator, str(folder))
        documents = columns.parquet(tables, column, str(folder), plain)
    elif texts:
        skipped.update(f"{_PARQUET} files, next to texts" for _ in tables)
        opened = [TextFile.open(path, path.relative_to(folder).as_posix(), column, separator) for path in texts]
        documents = _documents_of(opened, str(folder), "document", separator)
    else:
        looked_for = ", ".join((*SUFFIXES, *JSON_LINES, _PARQUET))
        there = f"; there are {format_counts(skipped)}" if skipped else ""
        raise ValueError(f"{folder}: no text in this folder (looked for {looked_for}){there}")
    documents.skipped.update(skipped)
    return documents


def _documents_of(files: Sequence[TextFile], source: str, unit: str, separator: str | None) -> Documents:
    """The documents of text files, which each pass reads again."""
    if all(file.separator is None for file in files):
        _require_no_separator(separator, source)
    return Documents(
        source,
        lambda: itertools.chain.from_iterable(file.documents() for file in files),
        sum(file.count() for file in files),
        unit=unit,
    )


def _require_no_separator(separator: str | None, source: str) -> None:
    """ValueError where a separator is given for a source without plain text files, where it would be ignored."""
    if separator is not None:
        raise ValueError(f"{source[:100]}: a separator is for plain text files, and this has none: leave it out")


def _files(folder: Path) -> tuple[list[Path], Counter[str]]:
    """The text and Parquet files below a folder, ordered by path, and how many other files it has, by reason.

    Text files are those of `SUFFIXES` and JSON lines, and the same compressed.

    Hidden files and folders, and folders of runs, are ignored. OSError for a folder that cannot be read.
    """

    def raise_error(error: OSError) -> None:
        raise error

    files: list[Path] = []
    skipped: Counter[str] = Counter()
    for parent, folders, names in os.walk(folder, onerror=raise_error):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if set(names) >= RUN:
            folders.clear()
            skipped["folders of runs"] += 1
            continue
        for name in names:
            path = Path(parent) / name
            suffix = suffix_of(path)
            if name.startswith("."):
                skipped["hidden files"] += 1
            elif suffix not in (*SUFFIXES, *JSON_LINES, _PARQUET):
                skipped[f"{suffix or 'other'} files"] += 1
            elif stem_of(path).lower() == "readme":
                skipped["READMEs"] += 1
            else:
                files.append(path)
    return sorted(files, key=lambda path: path.relative_to(folder).as_posix()), skipped


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


def _picture_texts(name: str) -> Documents:
    """The texts of pictures (`seqloom.data.pictures`), which are drawn or read again in each pass."""
    from seqloom.data.pictures import encode_picture, read_pictures

    pictures = read_pictures(name)

    def texts() -> Iterator[Document]:
        for number, drawn in enumerate(pictures):
            yield Document(f"picture {number}", encode_picture(drawn.picture, pictures.order))

    return Documents(name, texts, pictures.count, unit="picture")


_GENERATED: dict[str, Callable[[str], Documents]] = {
    "stories": _stories,
    "markov": _chain_text,
    "hmm": _chain_text,
    "images": _picture_texts,
}
