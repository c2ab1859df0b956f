"""Prepares labelled examples for training: tokens and labels of training and held-out examples, built once.

    examples → held out by content → tokenizer from the training examples → ids in a mapped file, labels next to it

Labels are numbered in the order of their names. A row of an example is `<eos>` text `<eos>` [second text `<eos>`].
"""

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from seqloom.data import cache as cached
from seqloom.data.corpora import read
from seqloom.data.documents import Document, Documents
from seqloom.data.given_tokenizer import Unit
from seqloom.data.labels import Example, Task, from_file, from_passages, require_fit, require_known
from seqloom.data.learned_tokenizer import digest, learned_tokenizer, training_settings
from seqloom.data.prepare import Corpus, encode_documents, mapped_tokens
from seqloom.data.split import hold_out
from seqloom.data.survey import survey_documents
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens

_FORMAT = 1  # raise it when the way from examples to ids changes


def prepare_labelled(
    source: str,
    *,
    task: Task,
    words: int,
    vocab: int | None,
    context: int,
    held_out: float,
    seed: int,
    column: str,
    tokenizer: Tokenizer | None,
    unit: Unit = "pieces",
    cache: str | Path | None = None,
) -> Corpus:
    """The examples of a source (`labels`) as a corpus whose tokens have labels; from the cache if it was built before.

    Examples of the tasks `given` and `book` are held out one by one, pairs of passages by whole documents. Raises as
    `labels.from_file` and `corpora.read` do, and ValueError where there is only one label, or an example exceeds the
    context.
    """
    train, held_out_examples, names = split_examples(source, task, words, held_out, seed, column)
    settings: dict[str, object] = {"format": _FORMAT, "held_out": held_out, "seed": seed, "labels": task}
    settings |= {"passage": words} if task != "given" else {}
    settings |= training_settings(vocab, unit) if tokenizer is None else {"tokenizer": digest(tokenizer)}
    documents = [
        Document(example.name, "\t".join((example.label, *example.texts))) for example in (*train, *held_out_examples)
    ]
    survey = survey_documents(Documents.of(documents, source, unit="example"), settings)
    folder = cached.folder(cache) / "labels" / survey.identity
    if tokenizer is None:
        path = folder / "tokenizer.json"
        tokenizer = learned_tokenizer(path, functools.partial(_texts, train), vocab, unit)
    tokenizer_digest = digest(tokenizer)[:16]
    sides = []
    for name, examples in (("train", train), ("held", held_out_examples)):
        path = folder / f"{name}-{tokenizer_digest}"
        tokens = mapped_tokens(path, functools.partial(_texts, examples), tokenizer)
        sides.append(_with_labels(tokens, examples, names, context))
    counts = f"training {len(train):,} examples, held out {len(held_out_examples):,}; {len(names)} labels"
    description = f"{source}: {counts}; vocabulary {tokenizer.vocab:,}"
    return Corpus(sides[0], sides[1], tokenizer, survey.identity, description, survey, labels=names)


def split_examples(
    source: str, task: Task, words: int, held_out: float, seed: int, column: str
) -> tuple[list[Example], list[Example], tuple[str, ...]]:
    """The examples for training, the held-out ones, and the names of the labels. Raises as `prepare_labelled`."""
    train, held_out_examples = _sides(source, task, words, held_out, seed, column)
    names = tuple(sorted({example.label for example in train}))
    if len(names) < 2:
        raise ValueError(f"{source}: all examples for training have the label {names[0]!r}: at least two are needed")
    require_known(held_out_examples, names)
    return train, held_out_examples, names


def encode_examples(examples: Sequence[Example], names: Sequence[str], tokenizer: Tokenizer, context: int) -> Tokens:
    """The tokens of examples with a given tokenizer, in memory. ValueError for a label that is not in `names`."""
    require_known(examples, names)
    return _with_labels(encode_documents(_texts(examples), tokenizer, unwrap=False), examples, names, context)


def _sides(
    source: str, task: Task, words: int, held_out: float, seed: int, column: str
) -> tuple[list[Example], list[Example]]:
    """The examples for training and the held-out ones."""
    if task in ("later", "same"):
        train, held_out_documents = hold_out(read(source, column=column), held_out, seed)
        return from_passages(list(train), task, words, seed), from_passages(list(held_out_documents), task, words, seed)
    documents = [] if task == "given" else list(read(source, column=column))
    examples = from_file(source, column) if task == "given" else from_passages(documents, task, words, seed)
    keys = [hashlib.sha256("\n".join((str(seed), *example.texts)).encode()).digest() for example in examples]
    limit = sorted(keys)[min(max(round(held_out * len(keys)), 1), len(keys)) - 1]
    training_labels = {example.label for example, key in zip(examples, keys, strict=True) if key > limit}
    training_examples: list[Example] = []
    held_out_examples: list[Example] = []
    for example, key in zip(examples, keys, strict=True):
        # an example whose label no training example has is trained on instead of held out
        if key <= limit and example.label in training_labels:
            held_out_examples.append(example)
        else:
            training_examples.append(example)
    if not training_examples or not held_out_examples:
        raise ValueError(f"{source}: {len(examples)} examples cannot be divided into two sides: add examples")
    return training_examples, held_out_examples


def _texts(examples: Iterable[Example]) -> Documents:
    return Documents.of([Document(example.name, text) for example in examples for text in example.texts], unit="text")


def _with_labels(tokens: Tokens, examples: Sequence[Example], names: Sequence[str], context: int) -> Tokens:
    texts = len(examples[0].texts)
    numbers = {name: number for number, name in enumerate(names)}
    labels: npt.NDArray[np.int64] = np.array([numbers[example.label] for example in examples], np.int64)
    labelled = replace(tokens, labels=labels, texts=texts)
    require_fit(examples, 1 + (tokens.ends - tokens.starts).reshape(-1, texts).sum(1), context)
    return labelled
