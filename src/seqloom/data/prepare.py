"""A source of text into what training reads: a tokenizer, training tokens and held-out tokens, each built once.

    documents → held out by document → wraps joined → tokenizer from the training side alone → ids in a mapped file

What is built lies in {cache}/corpora/{identity}; a second call with the same text and settings only opens it.
"""

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from seqloom.core.files import read_bytes
from seqloom.core.progress import progress
from seqloom.data import cache as cached
from seqloom.data.corpora import Document, read
from seqloom.data.paragraphs import unwrap as unwrapped
from seqloom.data.pieces import groups, pieces
from seqloom.data.split import hold_out
from seqloom.data.tokenizer import LARGEST, Tokenizer, require_vocab
from seqloom.data.tokens import EOS, Tokens, id_type

_FORMAT = 1  # raise it when the way from text to ids changes, so that nothing old is reused


@final
@dataclass(frozen=True)
class Corpus:
    """Text made ready. identity: sha256 over the source's content and the settings that shape the ids."""

    train: Tokens
    held: Tokens
    tokenizer: Tokenizer
    identity: str
    description: str


def prepare(
    source: str | Path,
    *,
    vocab: int,
    context: int,
    held_out: float = 0.05,
    seed: int = 0,
    unwrap: bool = True,
    cache: str | Path | None = None,
) -> Corpus:
    """Reads `source` (see `corpora.read`) and returns its tokens, from the cache where they were built before.

    Cached files are verified; a damaged one is built again, which is said. Raises what `corpora.read` raises, and
    ValueError for a `vocab` outside 257 … 2^24 or a training side shorter than one window of `context` + 1 tokens.
    """
    require_vocab(vocab)
    documents = read(source, cache=cache)
    # context is left out: it changes how the ids are read, not the ids
    settings: dict[str, object] = {
        "format": _FORMAT,
        "vocab": vocab,
        "held_out": held_out,
        "seed": seed,
        "unwrap": unwrap,
    }
    identity = _identity(documents, settings)
    home = cached.folder(cache) / "corpora" / identity

    @functools.cache
    def sides() -> tuple[list[Document], list[Document]]:
        train, held = hold_out(documents, held_out, seed)
        return (_unwrapped(train), _unwrapped(held)) if unwrap else (train, held)

    tokenizer = _tokenizer(home / "tokenizer.json", lambda: sides()[0], vocab)
    if tokenizer.vocab < vocab:
        print(f"{source}: the vocabulary is {tokenizer.vocab}, not {vocab}: the text gives no more", file=sys.stderr)
    # the tokenizer's hash in the name: ids are never read with another tokenizer than the one that made them
    mark = hashlib.sha256(tokenizer.json.encode()).hexdigest()[:16]
    train = _tokens(home / f"train-{mark}.tokens", lambda: sides()[0], tokenizer)
    held = _tokens(home / f"held-{mark}.tokens", lambda: sides()[1], tokenizer)
    if len(train) < context + 1:
        need = f"one window of context {context} needs {context + 1}; add text or lower the context"
        raise ValueError(f"{source}: the training text has {len(train)} tokens, and {need}")
    said = [f"{side.documents:,} documents, {len(side):,} tokens" for side in (train, held)]
    description = f"{source}: training {said[0]}; held out {said[1]}; vocabulary {tokenizer.vocab:,}"
    return Corpus(train, held, tokenizer, identity, description)


def encode_documents(documents: Sequence[Document], tokenizer: Tokenizer, *, unwrap: bool = True) -> Tokens:
    """The ids of documents with a given tokenizer, in memory. ValueError where there are none."""
    if not documents:
        raise ValueError("there are no documents to encode")
    documents = _unwrapped(documents) if unwrap else documents
    kind, eos = id_type(tokenizer.vocab), np.array([EOS], id_type(tokenizer.vocab))
    parts, lengths = [], np.zeros(len(documents), np.int64)
    with progress("tokens", sum(len(document.text) for document in documents), "characters") as advance:
        for group in groups(document.text for document in documents):
            for (number, last, text), ids in zip(group, tokenizer.encode_many([t for *_, t in group]), strict=True):
                parts += [np.array(ids, kind), *([eos] if last else [])]
                lengths[number] += len(ids) + last
                advance(len(text))
    sizes = np.array([len(document.text.encode()) for document in documents], np.int64)
    return Tokens(np.concatenate(parts), np.cumsum(lengths) - lengths, sizes)


def _unwrapped(documents: Iterable[Document]) -> list[Document]:
    return [Document(document.name, unwrapped(document.text)) for document in documents]


def _identity(documents: Iterable[Document], settings: dict[str, object]) -> str:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for document in documents:
        raw = document.text.encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def _tokenizer(path: Path, documents: Callable[[], list[Document]], vocab: int) -> Tokenizer:
    check = path.with_suffix(".sha256")
    if path.is_file():
        if check.is_file() and hashlib.sha256(read_bytes(path, LARGEST)).hexdigest().encode() == read_bytes(check):
            return Tokenizer.load(path)
        print(f"{path}: damaged; training the tokenizer again", file=sys.stderr)
    tokenizer = Tokenizer.train(_watched(documents()), vocab)
    # the checksum first: a tokenizer without one would look damaged to another run that starts meanwhile
    cached.write(check, hashlib.sha256(tokenizer.json.encode()).hexdigest().encode())
    tokenizer.save(path)
    return tokenizer


def _watched(documents: Sequence[Document]) -> Iterator[str]:
    with progress("tokenizer", sum(len(document.text) for document in documents), "characters") as advance:
        for document in documents:
            for piece in pieces(document.text):
                yield piece
                advance(len(piece))


def _tokens(path: Path, documents: Callable[[], list[Document]], tokenizer: Tokenizer) -> Tokens:
    if path.is_file():
        try:
            return Tokens.open(path)
        except ValueError as error:
            print(f"{error}; building it again", file=sys.stderr)
    encode_documents(documents(), tokenizer, unwrap=False).save(path)
    return Tokens.open(path)
