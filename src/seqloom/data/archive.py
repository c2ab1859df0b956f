"""A text that is ready for training in one file: its token ids, its tokenizer and what shaped them.

    seqloom data prepare books/ --out books.tokens        made once
    seqloom train --data books.tokens                     the same batches as of books/, on any machine

    books.tokens     an uncompressed tar archive:
        corpus.json          {format, identity, description, settings, survey, division, checksums, sha256}
        tokenizer.json
        train.tokens  held.tokens  test.tokens        (module `tokens`); test where the text has a test part

Token ids are mapped into memory where they lie in the archive. Every member is under a checksum.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seqloom.core.files import open_regular, parse_json
from seqloom.data import cache
from seqloom.data.authors import Division, Side
from seqloom.data.config import DataConfig
from seqloom.data.given_tokenizer import UNITS
from seqloom.data.learned_tokenizer import digest
from seqloom.data.prepare import Corpus
from seqloom.data.survey import Survey
from seqloom.data.text_file import TOKENS
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens, stored_checksum

SUFFIX = TOKENS
FORMAT = 1
HEAD, TOKENIZER = "corpus.json", "tokenizer.json"
PARTS = {"train": "train.tokens", "held_out": "held.tokens", "test": "test.tokens"}
LARGEST = 64 << 20
"""the most bytes of corpus.json and of tokenizer.json"""


def is_archive(source: str) -> bool:
    """Whether a source of text names a file of tokens."""
    return source.endswith(SUFFIX) and Path(source).expanduser().is_file()


def require_free(out: Path) -> None:
    """ValueError where a corpus cannot be written to this path: something is there, or its name has another ending."""
    if not out.name.endswith(SUFFIX):
        raise ValueError(f"{out} must end in {SUFFIX}, by which `--data` knows it")
    if out.exists() or out.is_symlink():
        raise ValueError(f"{out} is there already: choose another --out")


def write(corpus: Corpus, settings: Mapping[str, Any], out: Path) -> None:
    """Writes the corpus, completely or not at all; `settings` are those that shaped its ids.

    ValueError as `require_free`.
    """
    require_free(out)
    texts = {PARTS[name]: tokens for name in PARTS if (tokens := getattr(corpus, name)) is not None}
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent) as folder:
        paths = {name: Path(folder) / name for name in (TOKENIZER, *texts)}
        paths[TOKENIZER].write_text(corpus.tokenizer.json, encoding="utf-8")
        for name, tokens in texts.items():
            tokens.save(paths[name])
        head = {
            "format": FORMAT,
            "identity": corpus.identity,
            "description": corpus.description,
            "settings": dict(settings),
            "survey": asdict(corpus.survey),
            "division": None if corpus.division is None else _plain(corpus.division),
            "checksums": {name: _checksum(path, name) for name, path in paths.items()},
        }
        text = json.dumps({**head, "sha256": _digest(head)}, indent=1).encode()
        with cache.replacing(out) as file, tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, HEAD, len(text), io.BytesIO(text))
            for name, path in paths.items():
                with path.open("rb") as member:
                    _add(archive, name, path.stat().st_size, member)


def read(path: Path, settings: Mapping[str, Any] | None = None) -> Corpus:
    """The corpus of a file, its ids mapped into memory.

    ValueError, in one line, where the file is none of this kind, cut or altered, and where it was made with other
    `settings` (`shaping`) than these, if some are given, by which the ids would be others.
    """
    members = _members(path)
    head = _head(path, members)
    if settings is not None:
        _require_settings(path, head["settings"], settings)
    for name, expected in head["checksums"].items():
        if name not in members or _checksum(path, name, members[name]) != expected:
            raise ValueError(f"{path} is cut or altered: its {name} is not the one that was written; copy it again")
    tokenizer = _tokenizer(_bytes(path, members[TOKENIZER]))
    train, held_out, test = (
        replace(Tokens.open(path, *members[name]), unknown=tokenizer.unknown) if name in head["checksums"] else None
        for name in PARTS.values()
    )
    assert train is not None
    assert held_out is not None
    division = None if head["division"] is None else _division(head["division"])
    description = f"{path}: {head['description']}"
    return Corpus(train, held_out, tokenizer, head["identity"], description, _survey(head["survey"]), test, division)


def shaping(data: DataConfig, tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Those settings of a text that shape its ids; a given tokenizer counts by its content."""
    names = ["vocab", "held_out", "unwrap", "column", "division", "folds", "fold", "separator"]
    if data.division == "documents":
        names.append("seed")
    settings = {name: getattr(data, name) for name in names}
    return {**settings, "tokenizer": data.tokenizer if tokenizer is None else digest(tokenizer)}


def _require_settings(path: Path, made_with: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """ValueError, which names the settings that differ."""
    names = dict.fromkeys([*made_with, *settings])
    differing = [name for name in names if made_with.get(name) != settings.get(name)]
    if not differing:
        return
    there = " and ".join(f"data.{name}={made_with.get(name)}" for name in differing)
    here = " and ".join(str(settings.get(name)) for name in differing)
    advice = " ".join(_change(name, made_with.get(name)) for name in differing)
    raise ValueError(
        f"{path} was prepared with {there}, and this run has {here}: add {advice}, or prepare the text again"
    )


def _change(name: str, value: Any) -> str:
    """The words of a command that give a setting this value."""
    if name == "tokenizer" and value is not None and value not in UNITS:
        return "--set data.tokenizer=… with the tokenizer that was given then"
    return f"--set data.{name}={'null' if value is None else value}"


def _members(path: Path) -> dict[str, tuple[int, int]]:
    """Where each member lies: its first byte and its size. ValueError for another file."""
    with open_regular(path) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                found = {member.name: (member.offset_data, member.size) for member in archive if member.isreg()}
        except (tarfile.TarError, EOFError, OverflowError, ValueError, OSError):  # the last two: of extended headers
            raise ValueError(f"{path} is no file of tokens, or cut: `seqloom data prepare` writes one") from None
    size = path.stat().st_size
    if HEAD not in found or any(first + length > size for first, length in found.values()):
        raise ValueError(f"{path} is no file of tokens, or cut: `seqloom data prepare` writes one")
    return found


def _head(path: Path, members: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """The content of corpus.json. ValueError where it was altered, or is of another format."""
    try:
        head = parse_json(_bytes(path, members[HEAD]))
        expected = head.pop("sha256")
        format_, altered = head["format"], _digest(head) != expected
        if format_ == FORMAT:
            _require_fields(head)
    except (ValueError, KeyError, TypeError, AttributeError):
        format_, altered = None, True
    if not altered and format_ != FORMAT:
        raise ValueError(f"{path} is of format {format_}, and this seqloom reads {FORMAT}: prepare the text again")
    if altered or {PARTS["train"], PARTS["held_out"], TOKENIZER} - set(head["checksums"]):
        raise ValueError(f"{path} is cut or altered: its {HEAD} is not the one that was written; copy it again")
    return dict(head)


def _require_fields(head: Mapping[str, Any]) -> None:
    """KeyError, TypeError, ValueError or AttributeError where a field is missing or is no such field."""
    if not all(isinstance(head[name], str) for name in ("identity", "description")):
        raise TypeError("identity and description are texts")
    if not all(isinstance(head[name], dict) for name in ("settings", "checksums")):
        raise TypeError("settings and checksums are objects")
    _survey(head["survey"])
    if head["division"] is not None:
        _division(head["division"])


def _bytes(path: Path, place: tuple[int, int]) -> bytes:
    """A small member. ValueError where it is too large to be one."""
    first, size = place
    if size > LARGEST:
        raise ValueError(f"{path} has a description of {size:,} bytes, and at most {LARGEST:,} are read")
    with open_regular(path) as file:
        file.seek(first)
        return file.read(size)


def _checksum(path: Path, name: str, place: tuple[int, int] = (0, LARGEST)) -> str:
    """The checksum of a member: that in the header of a file of tokens, which is verified when it is opened."""
    if name == TOKENIZER:
        return hashlib.sha256(_bytes(path, place)).hexdigest()
    return stored_checksum(path, place[0])


def _tokenizer(text: bytes) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / TOKENIZER
        path.write_bytes(text)
        return Tokenizer.load(path)


def _digest(head: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()


def _add(archive: tarfile.TarFile, name: str, size: int, content: Any) -> None:
    """Adds a member without times and owners, so that the same corpus gives the same file."""
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, content)


def _survey(values: Mapping[str, Any]) -> Survey:
    return Survey(**{**values, "longest": tuple(map(tuple, values["longest"]))})


def _plain(division: Division) -> dict[str, Any]:
    return {**asdict(division), "parts": division.parts.hex()}


def _division(values: Mapping[str, Any]) -> Division:
    sides = tuple(Side(**{**side, "authors": tuple(side["authors"])}) for side in values["sides"])
    return Division(bytes.fromhex(values["parts"]), tuple(values["authors"]), sides)
