"""A tokenizer that is trained on a text once and then read from its file, which has a checksum next to it.

{folder}/tokenizer.json, {folder}/tokenizer.sha256        trained again where the file does not match its checksum
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
from seqloom.data.seams import BYTE_LEVEL_SEAMS, WORD_SEAMS
from seqloom.data.tokenizer import LARGEST, Tokenizer, require_vocab
from seqloom.data.words import require_words, train_words


def digest(tokenizer: Tokenizer) -> str:
    """The sha256 of a tokenizer's tokenizer.json."""
    return hashlib.sha256(tokenizer.json.encode()).hexdigest()


def training_settings(vocab: int | None, unit: Unit) -> dict[str, object]:
    """The settings of a tokenizer to train, for the identity of a corpus. ValueError for a `vocab` it cannot have."""
    if vocab is None and unit != "characters":
        raise ValueError("give vocab, the size of the tokenizer to train, or a tokenizer")
    if vocab is not None:
        require_size = require_words if unit == "words" else require_vocab
        require_size(vocab)
    return {"vocab": vocab} if unit == "pieces" else {"vocab": vocab, unit: True}


def learned_tokenizer(path: Path, documents: Callable[[], Documents], vocab: int | None, unit: Unit) -> Tokenizer:
    """The tokenizer in the file `path`, or one that is trained on the documents and saved there."""
    checksum = path.with_suffix(".sha256")
    if path.is_file():
        file_digest = hashlib.sha256(read_bytes(path, LARGEST)).hexdigest().encode()
        if checksum.is_file() and file_digest == read_bytes(checksum):
            return Tokenizer.load(path)
        print(f"{path}: damaged; training the tokenizer again", file=sys.stderr)
    tokenizer = _train_tokenizer(_with_progress(documents(), unit), vocab, unit)
    # the checksum is written first: without it the tokenizer would look damaged to a run that starts meanwhile
    cached.write(checksum, digest(tokenizer).encode())
    tokenizer.save(path)
    return tokenizer


def _train_tokenizer(texts: Iterator[str], vocab: int | None, unit: Unit) -> Tokenizer:
    if unit == "characters":
        return Tokenizer.train_characters(texts, vocab)
    assert vocab is not None, "training_settings has refused it"
    return train_words(texts, vocab) if unit == "words" else Tokenizer.train(texts, vocab, show=progress)


def _with_progress(documents: Documents, unit: Unit) -> Iterator[str]:
    """The pieces of all documents, which have the words of the whole; a progress bar counts their characters."""
    seams = WORD_SEAMS if unit == "words" else BYTE_LEVEL_SEAMS
    with progress("tokenizer", documents.characters, "characters") as advance:
        for document in documents:
            for piece in pieces(document.text, seams):
                yield piece
                advance(len(piece))
