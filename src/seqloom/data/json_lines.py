"""Documents in JSON lines: an object per line, whose field `column` holds the text.

    {"text": "Once upon a time"}        column text
    {"meta": {"text": "Once"}}          column meta.text

A text that is null or blank is no document, and is counted.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.text_file import plain, split_text

SUFFIXES = (".jsonl", ".ndjson")
"""endings of files that are read as JSON lines, whatever is in them"""
_NAMES, _NAME = 10, 40
"""the most fields that an error lists, and the most characters of each"""
MISSING = object()
"""what `field_of` returns where there is no such field"""


def begins_json_lines(parts: Iterable[str]) -> bool:
    """Whether the first line with text, of a text that comes part by part, is an object in JSON."""
    with_text = itertools.dropwhile(lambda part: not part.strip(), parts)
    first = next(with_text, "").lstrip()
    if not first.startswith("{"):
        return False
    try:
        return isinstance(json.loads(next(split_text(itertools.chain([first], with_text), "\n"))), dict)
    except (ValueError, RecursionError):
        return False


def documents_in(path: Path, name: str, lines: Iterable[str], column: str) -> Iterator[Document]:
    """A document for each line, from its field `column`; one without text where that is null.

    Documents are called `name`, with the number of their line.

    ValueError, with the number of the line, for one that is not JSON or has no such field with a string; and where no
    line has text.
    """
    empty = True
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if empty and line.lstrip().startswith("["):
            raise ValueError(f"{path}: a JSON array, not a line for each text: {ADVICE}")
        empty = False
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error})") from error
        value = field_of(row, column)
        if value is not None and not isinstance(value, str):
            raise ValueError(f'{path}, line {number}: no string field "{column}"; {string_fields(row)}')
        content = value or ""
        try:
            content.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{path}, line {number}: half a surrogate pair, which is no UTF-8") from error
        yield Document(f"{name}:{number}", plain(content))
    if empty:
        raise ValueError(f"{path}: empty")


ADVICE = "write each text on a line of its own, as jq -c '.[]' FILE > FILE.jsonl does"
"""what to do with an array in JSON"""


def field_of(row: object, column: str) -> object:
    """The value of a field; a.b is the field b of the object in a, unless a field has that name."""
    if not isinstance(row, dict):
        return MISSING
    if column in row:
        return row[column]
    first, dot, rest = column.partition(".")
    inner = row.get(first)
    if not dot or first not in row:
        return MISSING
    return None if inner is None else field_of(inner, rest)


def string_fields(row: object) -> str:
    """The end of an error about a missing field: the first fields of a line that hold strings, and what to do."""
    if not isinstance(row, dict):
        return 'a line holds an object, such as {"text": "Once"}'
    names = list(_strings(row))
    lists = [name for name, value in row.items() if isinstance(value, list) and any(isinstance(v, dict) for v in value)]
    chats = f"; {json.dumps(lists[0][:_NAME])} is a list, as of a chat: write its texts into one field" if lists else ""
    if not names:
        return f"no field of this line holds a string{chats}"
    shown = ", ".join(json.dumps(name[:_NAME]) for name in names[:_NAMES]) + (", …" if len(names) > _NAMES else "")
    return f"there is {shown}: {columns.NAME}{chats}"


def _strings(row: dict[str, Any], outside: str = "") -> Iterator[str]:
    """The names of the fields that hold strings, also those in objects inside, as a.b."""
    for name, value in row.items():
        if isinstance(value, str):
            yield outside + name
        elif isinstance(value, dict) and outside.count(".") < 3:
            yield from _strings(value, f"{outside}{name}.")
