"""JSON lines: fields inside fields, texts that are null, and errors that name the fields that are there."""

import json
from pathlib import Path

import pytest

from seqloom.data.corpora import read
from seqloom.data.json_lines import MISSING, field_of
from seqloom.data.labels import from_file
from seqloom.data.prepare import prepare


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_field_is_found_inside_others() -> None:
    row = {"a": {"b": {"c": "deep"}, "d": "in"}, "a.d": "dotted", "n": None, "s": "text"}
    assert field_of(row, "a.b.c") == "deep"
    assert field_of(row, "a.d") == "dotted"
    assert field_of(row, "n") is None
    assert field_of(row, "n.b") is None
    for column in ("b", "a.x", "s.t", "", "a."):
        assert field_of(row, column) is MISSING


def test_a_null_is_a_line_without_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ({"meta": {"text": "one"}}, {"meta": {"text": None}}, {"meta": None}, {"meta": {"text": "two"}})
    documents = read(lines(tmp_path / "a.jsonl", *rows), column="meta.text")
    assert [(document.name, document.text) for document in documents] == [("a.jsonl:1", "one"), ("a.jsonl:4", "two")]
    assert documents.skipped == {"lines without text": 2}
    assert "2 lines have no text and were left out" in capsys.readouterr().err


def test_an_example_without_text_is_counted_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ({"label": "x", "m": {"t": "one"}}, {"label": "y", "m": {"t": None}}, {"label": "z", "m": {"t": "two"}})
    examples = from_file(lines(tmp_path / "a.ndjson", *rows), "m.t")
    assert [(example.label, *example.texts) for example in examples] == [("x", "one"), ("z", "two")]
    assert "1 lines have no text and were left out" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"a\.jsonl: empty: no line has any text"):
        from_file(lines(tmp_path / "a.jsonl", {"label": "x", "text": None}))


CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
MISSING_FIELDS = {
    "chat": ({"messages": CHAT}, 'no field of this line holds a string; "messages" is a list, as of a chat: write its'),
    "both": ({"id": "1", "messages": CHAT}, 'there is "id": name one by .* "messages" is a list, as of a chat'),
    "nested": (
        {"meta": {"body": "a", "by": {"name": "b"}}, "n": 3},
        'there is "meta.body", "meta.by.name": name one by',
    ),
    "none": ({"n": 3, "tags": ["a"]}, "no field of this line holds a string$"),
}


@pytest.mark.parametrize(("row", "message"), MISSING_FIELDS.values(), ids=MISSING_FIELDS)
def test_a_missing_field_names_those_that_are_there(tmp_path: Path, row: dict, message: str) -> None:
    with pytest.raises(ValueError, match=rf'line 1: no string field "text"; {message}') as caught:
        list(read(lines(tmp_path / "a.jsonl", row)))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_corpus_says_what_was_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    lines(
        folder / "a.jsonl", {"text": "some words of a text " * 20}, {"text": None}, {"text": "some other words " * 20}
    )
    (folder / "b.csv").write_text("a,b")
    corpus = prepare(folder, vocab=300, context=8, cache=tmp_path / "cache")
    assert corpus.description.startswith(f"{folder}: training 1 documents")
    assert "; skipped 1 .csv files, 1 documents without text; " in corpus.description
    assert corpus.survey.skipped == {".csv files": 1, "documents without text": 1}
