"""Examples of one or two texts and a label, from a file with labels or made from passages of documents.

    given    label <TAB> text [<TAB> second text]                  a line of a .tsv file
             {"label": …, "text": …, "text_2": …}                  a line of a .jsonl file
             images:…                                              pictures, by what is on them (`pictures`)
             listops[:COUNT[:SEED[:DEPTH[:LENGTH]]]]               nested operations on lists (`list_operations`)
    book     which document a passage is from
    later    which of two passages of a document comes later: "first" or "second"
    same     whether two passages are from one document: "same" or "different"

A document is cut into passages of equal size in words. The seed chooses which of them are paired.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np

from seqloom.data.corpora import read
from seqloom.data.documents import Document
from seqloom.data.json_lines import MISSING, SUFFIXES, field_of, string_fields
from seqloom.data.list_operations import read_lists
from seqloom.data.permutation import permute
from seqloom.data.pictures import encode_picture, read_pictures
from seqloom.data.text_file import read_text_file, suffix_of

Task: TypeAlias = Literal["given", "book", "later", "same"]


@final
@dataclass(frozen=True)
class Example:
    """One or two texts and their label; `name` says where it is from, for messages."""

    name: str
    label: str
    texts: tuple[str, ...]


def from_file(source: str | Path, column: str = "text") -> list[Example]:
    """The examples of a .tsv or .jsonl file, in its order; all have one text, or all have two.

    Named sources (`GENERATED`) have labels of their own. Raises as `corpora.read` does for a file, and
    ValueError, with its number, for a line that is not an example.
    """
    if (name := str(source).partition(":")[0]) in GENERATED:
        return GENERATED[name](str(source))
    path = Path(source).expanduser()
    suffix = suffix_of(path)
    if path.is_dir() or suffix not in (".tsv", *SUFFIXES):
        raise ValueError(
            f"{source}: labels are given by a .tsv or .jsonl file; for others set data.labels=book, later or same"
        )
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    lines = ((number, line) for number, line in enumerate(read_text_file(path).split("\n"), 1) if line.strip())
    parse = _row if suffix == ".tsv" else _object
    rows = [parse(f"{path}, line {number}", line, column) for number, line in lines]
    examples = [example for example in rows if example is not None]
    if not examples:
        raise ValueError(f"{path}: empty: no line has any text")
    if len(examples) < len(rows):
        print(f"{path}: {len(rows) - len(examples):,} lines have no text and were left out", file=sys.stderr)
    text_count = len(examples[0].texts)
    for example in examples:
        if len(example.texts) != text_count:
            raise ValueError(f"{example.name}: {len(example.texts)} texts, where the first line has {text_count}")
    return examples


def _picture_examples(source: str) -> list[Example]:
    """Pictures, and what is on them, or the folders that files are in."""
    pictures = read_pictures(source)
    texts = ((drawn.label, encode_picture(drawn.picture, pictures.order)) for drawn in pictures)
    return [Example(f"{source}, picture {number}", label, (text,)) for number, (label, text) in enumerate(texts)]


def _list_operations(source: str) -> list[Example]:
    return [Example(f"{source}, list {number}", *drawn) for number, drawn in enumerate(read_lists(source))]


GENERATED = {"images": _picture_examples, "listops": _list_operations}
"""makes the examples of a source by its name"""


def from_passages(documents: Sequence[Document], task: Task, words: int, seed: int) -> list[Example]:
    """The examples of a task made from passages of `words` words. ValueError where there are none."""
    books = [(document.name, _passages(document.text, words)) for document in documents]
    match task:
        case "book":
            examples = [
                Example(f"{name}, passage {number}", name, (passage,))
                for name, passages in books
                for number, passage in enumerate(passages, 1)
            ]
        case "later":
            examples = list(_later(books, seed))
        case _:
            examples = list(_same(books, seed))
    if not examples:
        raise ValueError(f"no document has two passages of data.passage={words} words: lower it, or add text")
    return examples


def examples_of(source: str | Path, task: Task, *, column: str, words: int, seed: int) -> list[Example]:
    """All examples of a source: those in its file for the task `given`, else those made from its documents."""
    if task == "given":
        return from_file(source, column)
    return from_passages(list(read(source, column=column)), task, words, seed)


def _row(name: str, line: str, column: str) -> Example:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) not in (2, 3):
        count = "one column" if len(cells) == 1 else f"{len(cells)} columns"
        raise ValueError(f"{name}: {count}; a line has a label, a text and perhaps a second text, separated by tabs")
    return _example(name, cells[0], cells[1:])


def _object(name: str, line: str, column: str) -> Example | None:
    """The example in a line of a .jsonl file; None where its text is null."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError(f'{name}: a line holds an object, such as {{"label": "happy", "text": "Once"}}')
    label = row.pop("label", None)
    if not isinstance(label, str | int):
        raise ValueError(f'{name}: no field "label" with a string or a whole number')
    text = field_of(row, column)
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f'{name}: no string field "{column}"; {string_fields(row)}')
    second = field_of(row, f"{column}_2")
    texts = [text, *([second] if isinstance(second, str) else [])]
    if second is not None and second is not MISSING and not isinstance(second, str):
        raise ValueError(f'{name}: "{column}_2" is no string: the second text is one, or is left out')
    return _example(name, str(label), texts)


def _example(name: str, label: str, texts: Sequence[str]) -> Example:
    """An example, after its texts are checked: none is empty, all are UTF-8."""
    if not label or not all(text.strip() for text in texts):
        raise ValueError(f"{name}: an empty {'text' if label else 'label'}")
    for text in (label, *texts):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name}: half a surrogate pair, which is no UTF-8") from None
    return Example(name, label, tuple(texts))


def _passages(text: str, words: int) -> list[str]:
    all_words = text.split()
    return [" ".join(all_words[first : first + words]) for first in range(0, len(all_words) - words + 1, words)]


def _shuffle_numbers(count: int, seed: int, epoch: int) -> list[int]:
    """The numbers below `count` in the order of a shuffle, which seed and epoch determine."""
    order: list[int] = permute(np.arange(count), epoch, count, seed).tolist() if count else []
    return order


def _later(books: Sequence[tuple[str, list[str]]], seed: int) -> Iterator[Example]:
    """Pairs of passages of one document in random order, labeled by which of the two comes later."""
    for number, (name, passages) in enumerate(books):
        order = _shuffle_numbers(len(passages), seed, number)
        for first, second in list(pairwise(order))[::2]:
            label = "second" if second > first else "first"
            yield Example(f"{name}, passages {first + 1} and {second + 1}", label, (passages[first], passages[second]))


def _same(books: Sequence[tuple[str, list[str]]], seed: int) -> Iterator[Example]:
    """Pairs from one document and pairs from two, alternately.

    In each turn a shuffle decides which document is next; one without passages takes no part.
    """
    books = [(name, passages) for name, passages in books if passages]
    orders = [_shuffle_numbers(len(passages), seed, number) for number, (_, passages) in enumerate(books)]
    from_one = cycle((True, False))
    for number, (name, passages) in enumerate(books):
        for turn, (first, second) in enumerate(list(pairwise(orders[number]))[::2]):
            origin = f"{name}, passage {first + 1}"
            document_order = _shuffle_numbers(len(books), seed, len(books) + turn)
            next_number = document_order[(document_order.index(number) + 1) % len(books)]
            if next(from_one):
                yield Example(origin, "same", (passages[first], passages[second]))
            elif next_number != number:
                other = books[next_number][1][orders[next_number][turn % len(orders[next_number])]]
                yield Example(origin, "different", (passages[first], other))


def require_known(examples: Sequence[Example], labels: Sequence[str]) -> None:
    """Raises ValueError, which names the line, for an example whose label is not in `labels`."""
    for example in examples:
        if example.label not in labels:
            known = ", ".join(labels[:20]) + (", …" if len(labels) > 20 else "")
            raise ValueError(
                f"{example.name}: the label {example.label!r} was never seen in training; there is {known}"
            )


def require_fit(examples: Sequence[Example], lengths: "np.ndarray[Any, Any]", context: int) -> None:
    """Raises ValueError, which names the first such example, where one has more tokens than the context."""
    long = np.flatnonzero(lengths > context)
    if long.size:
        raise ValueError(
            f"{examples[long[0]].name}: {lengths[long[0]]:,} tokens with its ends, above model.context={context:,}: "
            f"raise it to {lengths.max():,}, or shorten the texts"
        )
