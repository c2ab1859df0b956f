"""Prepares a text for training: a tokenizer, training tokens and held-out tokens, which are built once.

    documents → held out by document → wraps joined → tokenizer from the training part alone → ids in mapped files

Each arrow is a pass over the documents, which need not fit into memory. The result lies in {cache}/corpora/{identity};
a second call with the same text and settings only opens it.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, final

import numpy as np
import numpy.typing as npt

from seqloom.data import cache as cached
from seqloom.data import shards
from seqloom.data.authors import PARTS, Division, divide
from seqloom.data.config import WeightedSource
from seqloom.data.corpora import chain_of, read
from seqloom.data.documents import Document, Documents, format_counts, join_documents
from seqloom.data.encoding import document_ids
from seqloom.data.given_tokenizer import Unit
from seqloom.data.learned_tokenizer import digest, learned_tokenizer, training_settings
from seqloom.data.split import hold_out
from seqloom.data.survey import Survey, join_surveys, survey_documents
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens, id_type
from seqloom.data.vectors import Vectors
from seqloom.data.wraps import Unwrap, change_of

_FORMAT = 1  # increase it when the way from text to ids changes, so that old files are not reused


@final
@dataclass(frozen=True)
class Corpus:
    """A text that is ready for training.

    `identity` is a sha256 of its content and of the settings that shape the ids.
    """

    train: Tokens
    held_out: Tokens
    tokenizer: Tokenizer
    identity: str
    description: str
    survey: Survey
    test: Tokens | None = None
    """test tokens of a text that is divided by author; its `held` is then the validation part"""
    division: Division | None = None
    labels: tuple[str, ...] | None = None
    """the names of the labels, where examples have labels (module `labelled`)"""
    vectors: Vectors | None = None
    """(vocab, D), the initial embedding, where the run has a file of word vectors; not part of `identity`"""
    neighbors: npt.NDArray[np.int32] | None = None
    """(tokens, k), the ids that followed the neighbors of each token of `train` in a store, if the model uses one"""


def prepare(
    source: str | Path | Sequence[WeightedSource],
    *,
    vocab: int | None = None,
    context: int,
    held_out: float = 0.05,
    seed: int = 0,
    unwrap: Unwrap = "auto",
    column: str = "text",
    separator: str | None = None,
    tokenizer: Tokenizer | None = None,
    cache: str | Path | None = None,
    division: Literal["documents", "authors"] = "documents",
    folds: int | None = None,
    fold: int | None = None,
    unit: Unit = "pieces",
    workers: int = 0,
) -> Corpus:
    """Reads `source` (see `corpora.read`) and returns its tokens, from the cache if they were built before.

    Of several sources the text is that of all, one after the other; each has a held-out part, and training reads them
    by weight (module `mixture`), which is not part of the identity.

    The tokenizer is the given one, or one that is trained on the text, with tokens of `unit` and at most `vocab`
    entries (characters without a `vocab`: all of the text). The text of a Markov chain has a tokenizer with a token for
    each letter. `division` says how the held-out part is chosen: by documents and `seed` (module `split`), or by author
    (module `authors`), with a third part for tests, which with `folds` is the fold of number `fold`. `workers`
    processes encode the text (module `encoding`).

    Cached files are verified; a damaged one is built again, with a warning. Raises as `corpora.read` does, and
    ValueError for a `vocab` outside 257 … 2^24 (of words, 3 … 2^24) or a training text shorter than one window of
    `context` + 1 tokens.
    """
    # the context is not part of the identity: it changes how the ids are read, not the ids
    settings: dict[str, object] = {"format": _FORMAT, "held_out": held_out, "seed": seed, "unwrap": unwrap}
    weighted = [] if isinstance(source, str | Path) else list(source)
    names = [each.source for each in weighted] or [str(source)]
    source = " + ".join(names)
    chain = chain_of(source) if tokenizer is None and not weighted else None
    if chain is not None:
        if unit == "words":
            raise ValueError(f"{source}: the letters of the chain are its tokens: leave the tokenizer out")
        tokenizer = Tokenizer.of_letters(chain.alphabet)
        vocab = None
    if tokenizer is not None:
        settings["tokenizer"] = digest(tokenizer)
    else:
        settings |= training_settings(vocab, unit)
    texts = [read(name, column=column, separator=separator, cache=cache) for name in names]
    author_division = divide(texts[0], Path(source), held_out, folds, fold) if division == "authors" else None
    if author_division is not None:
        del settings["seed"]
        settings["parts"] = author_division.parts.hex()
    survey = join_surveys([survey_documents(documents, settings) for documents in texts])
    folder = cached.folder(cache) / "corpora" / survey.identity

    @functools.cache
    def sides_of_each() -> list[tuple[Documents, ...]]:
        if author_division is not None:
            return [tuple(author_division.side(texts[0], name) for name in PARTS)]
        return [hold_out(documents, held_out, seed) for documents in texts]

    @functools.cache
    def sides() -> tuple[Documents, ...]:
        parts = tuple(join_documents(side, source) for side in zip(*sides_of_each(), strict=True))
        change = change_of(unwrap)
        return parts if change is None else tuple(part.map_texts(change) for part in parts)

    if tokenizer is None:
        tokenizer = learned_tokenizer(folder / "tokenizer.json", lambda: sides()[0], vocab, unit)
    if vocab is not None and tokenizer.vocab < vocab and unit != "characters":
        print(f"{source}: the vocabulary is {tokenizer.vocab}, not {vocab}: the text gives no more", file=sys.stderr)
    # the name has the tokenizer's hash, so that ids are never read with another tokenizer than the one that made them
    tokenizer_digest = digest(tokenizer)[:16]
    train = mapped_tokens(folder / f"train-{tokenizer_digest}", lambda: sides()[0], tokenizer, workers)
    if weighted:
        counts_and_weights = zip(sides_of_each(), weighted, strict=True)
        train = replace(train, sources=tuple((sides[0].rows, each.weight) for sides, each in counts_and_weights))
    held_out_tokens = mapped_tokens(folder / f"held-{tokenizer_digest}", lambda: sides()[1], tokenizer, workers)
    test = (
        None
        if author_division is None or not author_division.sides[2].documents
        else mapped_tokens(folder / f"test-{tokenizer_digest}", lambda: sides()[2], tokenizer, workers)
    )
    if len(train) < context + 1:
        advice = f"one window of context {context} needs {context + 1}; add text or lower the context"
        raise ValueError(f"{source}: the training text has {len(train)} tokens, and {advice}")
    parts = {"training": train, "held out": held_out_tokens}
    if test is not None:
        parts = dict(zip(PARTS, (train, held_out_tokens, test), strict=True))
    counts = [f"{name} {part.documents:,} documents, {len(part):,} tokens" for name, part in parts.items()]
    if survey.skipped:
        counts.append(f"skipped {format_counts(survey.skipped)}")
    description = f"{source}: {'; '.join(counts)}; vocabulary {tokenizer.vocab:,}"
    return Corpus(train, held_out_tokens, tokenizer, survey.identity, description, survey, test, author_division)


def encode_documents(documents: Iterable[Document], tokenizer: Tokenizer, *, unwrap: Unwrap = True) -> Tokens:
    """The tokens of documents with a given tokenizer, in memory; documents without text are skipped.

    ValueError where no document has text.
    """
    documents = Documents.of(documents)
    change = change_of(unwrap)
    rows = list(document_ids(documents if change is None else documents.map_texts(change), tokenizer))
    ends = np.cumsum([len(ids) for ids, _ in rows], dtype=np.int64)
    starts = np.append(np.int64(0), ends[:-1])
    ids = np.concatenate([ids for ids, _ in rows])
    sizes = np.array([size for _, size in rows], np.int64)
    return Tokens(ids, starts, sizes, unknown=tokenizer.unknown)


def mapped_tokens(folder: Path, documents: Callable[[], Documents], tokenizer: Tokenizer, workers: int = 0) -> Tokens:
    """The tokens in a folder (`shards`), where those that are missing or damaged are written first."""
    tokens = shards.open_or_write(
        folder, lambda first: document_ids(documents(), tokenizer, first, workers), id_type(tokenizer.vocab)
    )
    return replace(tokens, unknown=tokenizer.unknown)
