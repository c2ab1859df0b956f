"""Labeled examples: files with labels, labels that follow from books, held-out parts, caching, and wrong files."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.data.documents import Document
from seqloom.data.labelled import encode_examples, prepare_labelled
from seqloom.data.labels import Example, Task, examples_of, from_file, from_passages
from seqloom.data.prepare import Corpus

BOOKS = [Document(f"book{book}.txt", " ".join(f"b{book}w{word}" for word in range(40))) for book in range(6)]


def written(folder: Path, lines: list[str], name: str = "labels.tsv") -> str:
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def prepared(source: str, task: Task = "given", **changes: Any) -> Corpus:
    values: dict[str, Any] = {"task": task, "words": 4, "vocab": 300, "context": 64, "held_out": 0.2, "seed": 0}
    return prepare_labelled(source, **{**values, "column": "text", "tokenizer": None, **changes})


def test_tsv_and_jsonl_give_the_same_examples(tmp_path: Path) -> None:
    rows = [("up", "good cat", "sad dog"), ("down", "bad cat", "a dog")]
    tsv = from_file(written(tmp_path, ["\t".join(row) for row in rows]))
    objects = [json.dumps({"label": label, "text": first, "text_2": second}) for label, first, second in rows]
    jsonl = from_file(written(tmp_path, objects, "labels.jsonl"))
    expected = [(label, (first, second)) for label, first, second in rows]
    assert [(each.label, each.texts) for each in tsv] == expected
    assert [(each.label, each.texts) for each in jsonl] == expected
    numbers = written(tmp_path, ['{"label": 3, "body": "x y"}'], "numbers.jsonl")
    assert from_file(numbers, "body") == [Example(f"{numbers}, line 1", "3", ("x y",))]


def test_which_book() -> None:
    examples = from_passages(BOOKS, "book", 4, seed=0)
    assert len(examples) == 60
    assert all(example.texts[0].startswith(f"b{example.label[4]}w") for example in examples)


def test_which_comes_later() -> None:
    examples = from_passages(BOOKS, "later", 4, seed=0)
    assert len(examples) == 30
    firsts = [[int(text.split("w")[1].split()[0]) for text in example.texts] for example in examples]
    assert [example.label == "second" for example in examples] == [second > first for first, second in firsts]
    assert 5 < sum(example.label == "second" for example in examples) < 25
    assert all(example.texts[0][:2] == example.texts[1][:2] for example in examples)
    assert from_passages(BOOKS, "later", 4, seed=1) != examples == from_passages(BOOKS, "later", 4, seed=0)


@pytest.mark.parametrize("words", [3, 10])
@pytest.mark.parametrize("task", ["later", "same"])
def test_documents_of_one_or_few_pairs_have_both_labels_alike(task: Task, words: int) -> None:
    """Documents of one length, as short stories are, do not all give the same pairs."""
    documents = [Document(f"s{n}", " ".join(f"s{n}w{word}" for word in range(20))) for n in range(200)]
    examples = from_passages(documents, task, words, seed=0)
    share = Counter(example.label for example in examples).most_common()[0][1] / len(examples)
    assert share < 0.58
    if task == "later":
        places = {tuple(int(text.split("w")[1].split()[0]) for text in example.texts) for example in examples}
        assert len(places) == (20 // words) * (20 // words - 1)


def test_an_empty_document_takes_no_part_in_pairs() -> None:
    examples = from_passages([BOOKS[0], Document("empty", ""), BOOKS[1]], "same", 4, seed=0)
    assert abs(sum(1 if example.label == "same" else -1 for example in examples)) <= 1


def test_whether_from_one_book() -> None:
    examples = from_passages(BOOKS, "same", 4, seed=0)
    assert [example.label == "same" for example in examples] == [
        a[:2] == b[:2] for a, b in (example.texts for example in examples)
    ]
    assert {example.label for example in examples} == {"same", "different"}
    assert abs(sum(1 if example.label == "same" else -1 for example in examples)) <= 1


def test_sides_ids_and_labels_of_a_file(tmp_path: Path) -> None:
    lines = [f"{'ab'[number % 2]}\tword{number} x\tother{number}" for number in range(50)] + ["rare\tone\ttwo"]
    corpus = prepared(written(tmp_path, lines))
    assert corpus.labels == ("a", "b", "rare")
    texts = {line.partition("\t")[2] for line in lines}
    read = []
    for side in (corpus.train, corpus.held_out):
        assert side.labels is not None
        assert (side.texts, len(side.labels) * 2) == (2, side.documents)
        parts = [
            corpus.tokenizer.decode(side.ids[start : end - 1].tolist())
            for start, end in zip(side.starts, side.ends, strict=True)
        ]
        pairs = ["\t".join(pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        by_text = {line.partition("\t")[2]: line.partition("\t")[0] for line in lines}
        assert [corpus.labels[label] for label in side.labels] == [by_text[pair] for pair in pairs]
        read += pairs
    assert len(read) == len(texts)
    assert set(read) == texts
    assert corpus.held_out.labels is not None
    assert 8 <= len(corpus.held_out.labels) <= 11
    assert 2 not in corpus.held_out.labels, "what no other example has the label of is learned"


def test_a_second_call_opens_what_the_first_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path, [f"{'ab'[number % 2]}\tword{number} x" for number in range(20)])
    first = prepared(source)
    monkeypatch.setattr("seqloom.data.prepare.document_ids", None)
    again = prepared(source)
    assert again.identity == first.identity
    assert np.array_equal(again.train.ids, first.train.ids)
    monkeypatch.undo()
    changed = written(tmp_path, [f"{'ba'[number % 2]}\tword{number} x" for number in range(20)])
    assert prepared(changed).identity != first.identity, "labels are hashed too"


def test_pairs_are_held_out_by_whole_books(tmp_path: Path) -> None:
    for book in BOOKS:
        (tmp_path / book.name).write_text(book.text)
    corpus = prepared(str(tmp_path), "later")
    books = [
        {
            corpus.tokenizer.decode(side.ids[start:end].tolist())[:2]
            for start, end in zip(side.starts, side.ends, strict=True)
        }
        for side in (corpus.train, corpus.held_out)
    ]
    assert not books[0] & books[1]
    assert len(books[0] | books[1]) == 6


WRONG = [
    (["a\tx", "no label"], r"labels.tsv, line 2: one column; a line has a label, a text and perhaps a second text"),
    (["a\tx", "b\ty\tz\tq"], "line 2: 4 columns"),
    (["a\tx", "b\ty\tz"], "line 2: 2 texts, where the first line has 1"),
    (["a\tx", "\ty"], "line 2: an empty label"),
    (["a\tx", "b\t "], "line 2: an empty text"),
    (["a\tx", "a\ty", "a\tz"], "all examples for training have the label 'a': at least two are needed"),
    (["a\tx", "b\ty"], "2 examples cannot be divided into two sides: add examples"),
    ([*[f"{c}\tx{c}{n}" for n in range(9) for c in "ab"], "b\t" + "x y " * 99], r"line 19: \d+ tokens .* raise it to"),
]


@pytest.mark.parametrize(("lines", "message"), WRONG)
def test_wrong_files(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepared(written(tmp_path, lines))


def test_wrong_objects_and_sources(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 1: not JSON"):
        from_file(written(tmp_path, ["{"], "a.jsonl"))
    for line, message in (
        ('{"text": "x"}', 'line 1: no field "label"'),
        ('["x"]', "line 1: a line holds an object"),
        ('{"label": 1, "body": "x"}', 'line 1: no string field "text"; there is "body": name one by'),
        ('{"label": 1, "text": "x", "text_2": 3}', 'line 1: "text_2" is no string'),
    ):
        with pytest.raises(ValueError, match=message):
            from_file(written(tmp_path, [line], "a.jsonl"))
    with pytest.raises(ValueError, match=r"for others set data\.labels=book, later or same"):
        from_file(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        from_file(tmp_path / "none.tsv")
    with pytest.raises(ValueError, match=r"no document has two passages of data\.passage=40 words"):
        from_passages(BOOKS, "later", 40, seed=0)


def test_a_label_that_was_never_seen(tmp_path: Path) -> None:
    corpus = prepared(written(tmp_path, [f"{'ab'[number % 2]}\tword{number} x" for number in range(20)]))
    assert corpus.labels is not None
    test = written(tmp_path, ["a\tx", "c\ty"], "test.tsv")
    examples = examples_of(test, "given", column="text", words=4, seed=0)
    with pytest.raises(ValueError, match=r"test.tsv, line 2: the label 'c' was never seen in training; there is a, b"):
        encode_examples(examples, corpus.labels, corpus.tokenizer, 64)
    tokens = encode_examples(examples[:1], corpus.labels, corpus.tokenizer, 64)
    assert tokens.labels is not None
    assert tokens.labels.tolist() == [0]
