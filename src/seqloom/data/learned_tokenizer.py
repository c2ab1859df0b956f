"""A tokenizer that is learned from a text, trained once: its file, the checksum next to it, and what its identity says.

{folder}/tokenizer.json, {folder}/tokenizer.sha256        a file that does not match its checksum is made again
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from seqloom.core.files import read_bytes
from seqloom.core.progress import progress
from seqloom.data import cache as cached
from seqloom.data.documents import Documents
from seqloom.data.given_tokenizer import Unit
from seqloom.data.pieces import pieces
from seqloom.data.tokenizer import LARGEST, Tokenizer, require_vocab
from seqloom.data.words import require_words, train_words


def digest(tokenizer: Tokenizer) -> str:
    """sha256 of the text of its tokenizer.json."""
    return hashlib.sha256(tokenizer.json.encode()).hexdigest()


def training_settings(vocab: int | None, unit: Unit) -> dict[str, object]:
    """What shapes a tokenizer that is trained, for the identity. ValueError for a `vocab` it cannot have."""
    if vocab is None and unit != "characters":
        raise ValueError("give vocab, the size of the tokenizer to train, or a tokenizer")
    if vocab is not None:
        (require_words if unit == "words" else require_vocab)(vocab)
    return {"vocab": vocab} if unit == "pieces" else {"vocab": vocab, unit: True}


def learned_tokenizer(path: Path, documents: Callable[[], Documents], vocab: int | None, unit: Unit) -> Tokenizer:
    """The tokenizer of a file, or one that is trained on documents and put there."""
    check = path.with_suffix(".sha256")
    if path.is_file():
        if check.is_file() and hashlib.sha256(read_bytes(path, LARGEST)).hexdigest().encode() == read_bytes(check):
            return Tokenizer.load(path)
        print(f"{path}: damaged; training the tokenizer again", file=sys.stderr)
    tokenizer = _trained(_watched(documents()), vocab, unit)
    # the checksum first: a tokenizer without one would look damaged to another run that starts meanwhile
    cached.write(check, digest(tokenizer).encode())
    tokenizer.save(path)
    return tokenizer


def _trained(texts: Iterator[str], vocab: int | None, unit: Unit) -> Tokenizer:
    if unit == "characters":
        return Tokenizer.train_characters(texts, vocab)
    assert vocab is not None, "training_settings has refused it"
    return train_words(texts, vocab) if unit == "words" else Tokenizer.train(texts, vocab)


def _watched(documents: Documents) -> Iterator[str]:
    with progress("tokenizer", documents.characters, "characters") as advance:
        for document in documents:
            for piece in pieces(document.text):
                yield piece
                advance(len(piece))
