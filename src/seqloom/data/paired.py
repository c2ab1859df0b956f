"""Prepares pairs of texts for training: the tokens of sources and targets, built once.

    pairs → held out by source → tokenizer from the training pairs → ids in a mapped file: source <eos> target <eos>

Pairs with the same source text are either all trained on or all held out.
"""

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seqloom.data import cache as cached
from seqloom.data.documents import Document, Documents
from seqloom.data.given_tokenizer import Unit
from seqloom.data.learned_tokenizer import digest, learned_tokenizer, training_settings
from seqloom.data.pairs import Pair, read_pairs
from seqloom.data.prepare import Corpus, encode_documents, mapped_tokens
from seqloom.data.survey import survey_documents
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens

_FORMAT = 1  # raise it when the way from pairs to ids changes


def prepare_paired(
    source: str,
    *,
    vocab: int | None,
    context: int,
    held_out: float,
    seed: int,
    tokenizer: Tokenizer | None,
    unit: Unit = "pieces",
    cache: str | Path | None = None,
) -> Corpus:
    """The pairs of `source` (`pairs.read_pairs`) as a corpus whose documents are source and target texts alternately.

    It is read from the cache if it was built before. Raises as `read_pairs` does, and ValueError where there are too
    few pairs to hold one out, or a text exceeds the context.
    """
    train, held_out_pairs = divide_pairs(read_pairs(source), held_out, seed, source)
    settings: dict[str, object] = {"format": _FORMAT, "held_out": held_out, "seed": seed, "pairs": True}
    settings |= training_settings(vocab, unit) if tokenizer is None else {"tokenizer": digest(tokenizer)}
    documents = [Document(pair.name, f"{pair.source}\t{pair.target}") for pair in (*train, *held_out_pairs)]
    survey = survey_documents(Documents.of(documents, source, unit="pair"), settings)
    folder = cached.folder(cache) / "pairs" / survey.identity
    if tokenizer is None:
        tokenizer = learned_tokenizer(folder / "tokenizer.json", functools.partial(_texts, train), vocab, unit)
    tokenizer_digest = digest(tokenizer)[:16]
    sides = []
    for name, pairs in (("train", train), ("held", held_out_pairs)):
        path = folder / f"{name}-{tokenizer_digest}"
        tokens = mapped_tokens(path, functools.partial(_texts, pairs), tokenizer)
        require_fit(pairs, tokens, context)
        sides.append(replace(tokens, texts=2))
    counts = f"training {len(train):,} pairs, held out {len(held_out_pairs):,}"
    description = f"{source}: {counts}; vocabulary {tokenizer.vocab:,}"
    return Corpus(sides[0], sides[1], tokenizer, survey.identity, description, survey)


def encode_pairs(pairs: Sequence[Pair], tokenizer: Tokenizer, context: int) -> Tokens:
    """The tokens of pairs with a given tokenizer, in memory. ValueError where one exceeds the context."""
    tokens = encode_documents(_texts(pairs), tokenizer, unwrap=False)
    require_fit(pairs, tokens, context)
    return replace(tokens, texts=2)


def divide_pairs(pairs: Sequence[Pair], held_out: float, seed: int, source: str) -> tuple[list[Pair], list[Pair]]:
    """The pairs for training and the held-out ones, chosen by the hash of seed and source text."""
    keys = [hashlib.sha256(f"{seed}\n{pair.source}".encode()).digest() for pair in pairs]
    limit = sorted(keys)[min(max(round(held_out * len(keys)), 1), len(keys)) - 1]
    train = [pair for pair, key in zip(pairs, keys, strict=True) if key > limit]
    held_out_pairs = [pair for pair, key in zip(pairs, keys, strict=True) if key <= limit]
    if not train:
        raise ValueError(f"{source}: {len(pairs)} pairs cannot be divided into two sides: add pairs of other sources")
    return train, held_out_pairs


def require_fit(pairs: Sequence[Pair], tokens: Tokens, context: int) -> None:
    """Raises ValueError, which names the first such pair, where a text with its `<eos>` exceeds the context."""
    lengths = (tokens.ends - tokens.starts).reshape(-1, 2)
    long = np.flatnonzero(lengths.max(1) > context)
    if long.size:
        first = int(long[0])
        side = "source" if lengths[first, 0] > context else "target"
        raise ValueError(
            f"{pairs[first].name}: the {side} has {lengths[first].max():,} tokens with its end, above "
            f"model.context={context:,}: raise it to {lengths.max():,}, or shorten the texts"
        )


def _texts(pairs: Iterable[Pair]) -> Documents:
    return Documents.of(
        [Document(pair.name, text) for pair in pairs for text in (pair.source, pair.target)], unit="text"
    )
