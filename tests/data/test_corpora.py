"""Documents from files, folders, JSON lines and names; joined lines; the held-out documents."""

import os
import sys
import types
from pathlib import Path

import pytest
from pydantic import ValidationError

from seqloom.data.config import DataConfig
from seqloom.data.corpora import read, require_column
from seqloom.data.documents import Document, unwrap
from seqloom.data.split import hold_out
from tests.special_files import KINDS, special


def test_a_file_is_one_document_without_mark_and_carriage_returns(tmp_path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\rthrée".encode())
    assert list(read(tmp_path / "a.txt")) == [Document("a.txt", "one\ntwo\nthrée")]


def test_a_folder_is_read_in_order_and_only_its_texts(tmp_path) -> None:
    for name in (
        "b.txt",
        "a.md",
        "sub/c.text",
        "README.md",
        "readme.txt",
        ".hidden.txt",
        ".git/x.txt",
        "m.csv",
        "z.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [document.name for document in read(tmp_path)] == ["a.md", "b.txt", "sub/c.text"]


@pytest.mark.parametrize("path", ["", "sub", "sub/deep"])
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch, path: str) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("a")
    forbidden, scandir = str(tmp_path / path), os.scandir

    def refuse(path):
        if str(path) == forbidden:
            raise PermissionError(13, os.strerror(13), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError) as caught:
        read(tmp_path)
    assert str(caught.value.filename) == forbidden


def test_what_is_hidden_may_be_forbidden(tmp_path, monkeypatch) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.txt").write_text("a")
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scandir(path) if str(path) == str(tmp_path) else 1 / 0)
    assert [document.name for document in read(tmp_path)] == ["a.txt"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_not_opened(tmp_path, monkeypatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    folder = Path("texts")
    folder.mkdir()
    special(folder / "b.txt", kind)
    for source in (folder / "b.txt", folder):
        with pytest.raises(ValueError, match=rf"b\.txt is {kind}, not a regular file"):
            read(source)


def test_a_dangling_link_in_a_folder_is_an_error(tmp_path) -> None:
    (tmp_path / "b.txt").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match=r"b\.txt"):
        read(tmp_path)


def test_a_text_larger_than_the_memory_is_not_read(tmp_path) -> None:
    with (tmp_path / "a.txt").open("wb") as file:
        file.write(b"a word " * 2**18)
        file.truncate(2**43)  # a hole: it takes no room on the disk
    with pytest.raises(ValueError, match=r"reading .*a\.txt needs at least 16\.0 TiB of memory, and .* are available"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stories:99999999999999999999", "99,999,999,999,999,999,999 stories needs at least .* TiB of memory, and "),
        ("stories:1:4294967296", "seed"),
        ("stories:" + "9" * 5000, "with whole numbers"),
        ("a\0b", "null character"),
        ("~nobody-of-this-name/a.txt", "write the whole path"),
    ],
    ids=["many", "seed", "digits", "null", "home"],
)
def test_absurd_names(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(name)


def test_json_lines(tmp_path, capsys) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one\\r\\nline\\u2028"}\n\n{"text": " "}\n{"text": "two", "id": 3}\n', encoding="utf-8")
    assert list(read(path)) == [Document("a.jsonl:1", "one\nline\u2028"), Document("a.jsonl:4", "two")]
    assert "1 lines have no text" in capsys.readouterr().err


def test_json_lines_are_read_under_any_name(tmp_path) -> None:
    for name in ("a.json", "b.NDJSON", "c.txt", "d", "e.csv", "f.md"):
        (tmp_path / name).write_text('\n{"text": "one", "n": 1}\n{"text": "two"}\n')
        assert [document.text for document in read(tmp_path / name)] == ["one", "two"]
        require_column(tmp_path / name)
    for text in ("{curly} braces", "{\n}", '"a string"', '{"text": "one"} and more'):
        (tmp_path / "c.txt").write_text(text)
        assert [document.text for document in read(tmp_path / "c.txt")] == [text]
        with pytest.raises(ValueError, match="has no columns"):
            require_column(tmp_path / "c.txt")


def test_shards_of_json_lines_are_read_next_to_texts(tmp_path) -> None:
    for name, text in (("b/1.jsonl", "three"), ("a.txt", "one"), ("b/0.ndjson", "two"), ("readme.jsonl", "no")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text if name == "a.txt" else f'{{"text": "{text}"}}\n{{"text": null}}\n')
    (tmp_path / "table.csv").write_text("a")
    documents = read(tmp_path)
    assert list(documents) == [
        Document("a.txt", "one"),
        Document("b/0.ndjson:1", "two"),
        Document("b/1.jsonl:1", "three"),
    ]
    assert documents.skipped == {".csv files": 1, "READMEs": 1, "documents without text": 2}
    require_column(tmp_path)
    (tmp_path / "a.txt").unlink()
    assert [document.text for document in read(tmp_path)] == ["two", "three"]


def test_a_folder_without_text_says_what_it_has(tmp_path) -> None:
    for name in ("a.csv", "b.csv", "c.pdf"):
        (tmp_path / name).write_text("a")
    with pytest.raises(
        ValueError, match=r"no text in this folder \(.*\.jsonl.*\); there are 2 \.csv files, 1 \.pdf files"
    ):
        read(tmp_path)


def test_a_text_that_looks_like_markup_is_read_with_a_hint(tmp_path, capsys) -> None:
    for text, kind in (("<!doctype html>\n<p>a", "HTML or XML"), ('[{"text": "a"}]', "JSON")):
        (tmp_path / "a.txt").write_text(text)
        assert [document.text for document in read(tmp_path / "a.txt")] == [text]
        assert f"a.txt: it looks like {kind}; read as it is" in capsys.readouterr().err


def test_a_column_is_only_for_sources_that_have_columns(tmp_path) -> None:
    for name in ("texts/a.txt", "texts/b.parquet", "tables/a.parquet", "a.tsv", "a.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a")
    for source in ("stories:3", "markov:2:1:0", "gutenberg-children", tmp_path / "texts", tmp_path / "a.tsv"):
        with pytest.raises(ValueError, match="has no columns: leave out --column"):
            require_column(source)
    for source in (tmp_path / "tables", tmp_path / "a.jsonl", tmp_path / "tables/a.parquet", tmp_path / "missing"):
        require_column(source)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "empty"),
        ("a.txt", b"\xef\xbb\xbf \r\n", "empty"),
        ("a.txt", b"ab\0c", "offset 2"),
        ("a.txt", "abc".encode("utf-16"), "binary or UTF-16"),
        ("a.txt", b"abc\xe9d", "byte offset 3"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "b"', "line 2: not JSON"),
        ("a.jsonl", b'\n{"text": 3}', "line 2: no string field"),
        (
            "a.jsonl",
            b'{"body": "Once", "id": 3, "a\\nb": ""}',
            r'no string field "text"; there is "body", "a\\nb": name one by --set data.column=NAME',
        ),
        ("a.jsonl", b'{"text": ' + b"[" * 200_000, "line 1: not JSON"),
        ("a.jsonl", b'{"text": "a"}\n["text"]', "line 2: no string field"),
        ("a.jsonl", b'["text"]', "a JSON array, not a line for each text: write each text on a line of its own"),
        ("a.json", b'[{"text": "a"}]', "JSON, and no JSON lines: write each text on a line of its own"),
        ("a.json", b'{\n "text": "a"\n}', "JSON, and no JSON lines"),
        ("a.ndjson", b"a", "line 1: not JSON"),
        ("a.csv", b"id,text\n1,a", "a table, not a text: write its texts as JSON lines or as Parquet. .*call it .txt"),
        ("a.TSV", b"id\ttext\n1\ta", "a table, not a text"),
        ("a.html", b"<p>a", "HTML or XML: write the text of it without tags"),
        ("a.xml", b"<a>b</a>", "HTML or XML"),
        ("a.page", b" <!DOCTYPE html><p>a", "HTML or XML"),
        ("a.txt.gz", b"no gzip", r"a\.txt\.gz: damaged, or not compressed as its name says"),
        ("a.xz", b"no xz", "damaged, or not compressed as its name says"),
        ("a.jsonl", b'{"text": "\\ud800"}', "line 1: half a surrogate"),
        ("a.jsonl", b'{"text": ""}', "no line has any text"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_bad_files_are_named_in_one_line(tmp_path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        list(read(tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_empty_folders_are_named(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no text in this folder"):
        read(tmp_path)


@pytest.mark.parametrize(("name", "asked"), [("stories", (20000, 0)), ("stories:3", (3, 0)), ("stories:2:7", (2, 7))])
def test_stories_by_name(monkeypatch, name: str, asked: tuple[int, int]) -> None:
    seen = []

    def corpus(count: int, seed: int):
        seen.append((count, seed))
        return iter(["a story", "another"])

    monkeypatch.setitem(sys.modules, "seqloom.data.stories", types.SimpleNamespace(corpus=corpus))
    assert [document.text for document in read(name)] == ["a story", "another"]
    assert seen == [asked]


@pytest.mark.parametrize("name", ["stories:", "stories:x", "stories:0", "stories:1:2:3", "stories:-1"])
def test_wrong_story_names(name: str) -> None:
    with pytest.raises(ValueError, match="stor"):
        read(name)


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("a\nb\nc", "a b c"),
        ("a  \nb", "a b"),
        ("a\n\nb\n\n\nc", "a\n\nb\n\n\nc"),
        ("a\n \t\nb", "a\n \t\nb"),
        ("He said:\n  a verse,\n  another\nand on", "He said:\n  a verse,\n  another and on"),
        ("\na\n", "\na\n"),
    ],
)
def test_unwrap(text: str, joined: str) -> None:
    assert unwrap(text) == joined
    assert unwrap(joined) == joined


def texts(*sizes: int) -> list[Document]:
    return [Document(f"d{n}", f"{n} " + "x" * (size - 3)) for n, size in enumerate(sizes)]


def test_held_out_by_document() -> None:
    documents = texts(*range(80, 120))
    train, held = map(list, hold_out(documents, 0.05, 0))
    share = sum(len(document.text) for document in held) / sum(len(document.text) for document in documents)
    assert 0.05 <= share <= 0.1
    assert sorted([*train, *held], key=documents.index) == documents
    assert {document.text for document in train}.isdisjoint(document.text for document in held)
    shuffled = [Document("other name", document.text) for document in reversed(documents)]
    assert {document.text for document in hold_out(shuffled, 0.05, 0)[1]} == {document.text for document in held}
    assert len({tuple(hold_out(documents, 0.05, seed)[1]) for seed in range(8)}) > 4


def test_held_out_in_hard_cases() -> None:
    long, short = texts(100_000, 10)
    for seed in range(6):
        assert tuple(map(list, hold_out([long, short], 0.05, seed))) == ([long], [short])
        train, held = map(list, hold_out(texts(50, 50, 50), 0.9, seed))
        assert len(train) == 1
        assert len(held) == 2
    copies = texts(20, 20) * 30
    train, held = map(list, hold_out(copies, 0.05, 0))
    assert {document.text for document in train}.isdisjoint(document.text for document in held)


def test_a_single_document_is_cut_at_a_blank() -> None:
    text = "one two three four five six seven eight nine ten " * 20
    for documents in ([Document("a", text)], [Document("a", text)] * 3):
        [head], [tail] = hold_out(documents, 0.05, 0)
        assert f"{head.text} {tail.text}" == text.rstrip() + " " * (len(tail.text) - len(tail.text.rstrip()))
        assert len(tail.text) / len(text) == pytest.approx(0.05, abs=0.01)
    [head], [tail] = hold_out([Document("a", "x" * 100)], 0.05, 0)
    assert (len(head.text), len(tail.text)) == (95, 5)
    with pytest.raises(ValueError, match="too short"):
        hold_out([Document("a", "x")], 0.05, 0)


@pytest.mark.parametrize("part", [0, 1, -0.1])
def test_held_out_part_is_checked(part: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        hold_out(texts(10, 10), part, 0)


@pytest.mark.parametrize("wrong", [{"vocab": 256}, {"held_out": 0}, {"sead": 1}, {"source": ""}])
def test_wrong_settings_raise_an_error(wrong: dict) -> None:
    assert DataConfig(source="a").vocab == 5000
    assert all(field.description for field in DataConfig.model_fields.values())
    with pytest.raises(ValidationError):
        DataConfig(**{"source": "a", **wrong})


def test_folders_of_runs_next_to_texts_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("once upon a time")
    run = tmp_path / "runs" / "he"
    (run / "checkpoints").mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl", "checkpoints/notes.txt"):
        (run / name).write_text('{"step": 1}\n')
    documents = read(tmp_path)
    assert [document.name for document in documents] == ["a.txt"]
    assert documents.skipped["folders of runs"] == 1
