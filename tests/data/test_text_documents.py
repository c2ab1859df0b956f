"""Text files are read again in each pass; their documents are files, or what stands between separators."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom.data import text_file
from seqloom.data.corpora import read
from seqloom.data.documents import Document, Documents
from seqloom.data.prepare import prepare
from seqloom.data.tokenizer import Tokenizer


def texts(documents: Documents) -> list[str]:
    return [document.text for document in documents]


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_documents_between_separators(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_AT_ONCE", size)
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\nstory\r\n<|end|>\r\n  two\r\n\r\n<|end|>\r\n \r\n<|end|>")
    expected = [Document("a.txt:1", "one\nstory"), Document("a.txt:2", "  two")]
    documents = read(path, separator="<|end|>")
    assert list(documents) == list(documents) == expected
    assert documents.rows == 4
    assert texts(read(path, separator="line")) == ["one", "story", "<|end|>", "  two", "<|end|>", "<|end|>"]
    assert texts(read(path)) == ["one\nstory\n<|end|>\n  two\n\n<|end|>\n \n<|end|>"]
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(path.read_bytes())
    (tmp_path / "c.jsonl").write_text('{"text": "x<|end|>y"}\n')
    assert texts(read(tmp_path, separator="<|end|>")) == ["one\nstory", "  two"] * 2 + ["x<|end|>y"]


@pytest.mark.parametrize("name", ["stories:3", "a.jsonl", "a.parquet", "jsonl", "gutenberg-children"])
def test_a_separator_is_for_plain_text(tmp_path: Path, name: str) -> None:
    (tmp_path / "jsonl").mkdir()
    for file in ("a.jsonl", "a.parquet", "jsonl/b.jsonl"):
        (tmp_path / file).write_text('{"text": "one"}\n')
    source = name if name in ("stories:3", "gutenberg-children") else tmp_path / name
    with pytest.raises(ValueError, match="a separator is for plain text files, and this has none: leave it out"):
        read(source, separator="line")


@pytest.mark.parametrize("separator", ["", " ", "\n"])
def test_a_blank_separator_is_an_error(tmp_path: Path, separator: str) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(ValueError, match="a separator of documents is line or a text that is not blank, not "):
        read(tmp_path / "a.txt", separator=separator)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "folder"])
def test_what_changes_between_two_passes_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / ("folder/a.txt" if name == "folder" else name)
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"text": "one"}\n')
    documents = read(tmp_path / name)
    assert texts(documents) == ["one"]
    path.write_text('{"text": "another"}\n')
    with pytest.raises(ValueError, match=rf"{path.name} was changed while it was read: start again"):
        list(documents)


def test_no_pass_holds_more_than_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with separators, and one of lines, is read part by part, whatever its size."""
    (tmp_path / "a.txt").write_text("a story\n<|end|>\n" * 20_000)
    (tmp_path / "a.jsonl").write_text('{"text": "a story"}\n' * 20_000)
    monkeypatch.setattr(text_file, "require_memory", lambda *_: 1 / 0)
    for documents in (read(tmp_path / "a.txt", separator="<|end|>"), read(tmp_path / "a.jsonl")):
        assert sum(1 for _ in documents) == 20_000


@pytest.mark.parametrize("content", [b"", b" \n\n"])
@pytest.mark.parametrize("separator", [None, "line", "<|end|>"])
def test_an_empty_file_is_named(tmp_path: Path, content: bytes, separator: str | None) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.txt: empty$"):
        list(read(tmp_path / "a.txt", separator=separator))


def test_a_corpus_of_separated_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"story {number}\n<|end|>\n" for number in range(40)))
    corpus = prepare(
        tmp_path / "a.txt", context=4, tokenizer=Tokenizer.of_bytes(), separator="<|end|>", cache=tmp_path / "cache"
    )
    assert corpus.train.documents + corpus.held_out.documents == 40
    first = corpus.train.ids[: corpus.train.ends[0]].tolist()
    assert corpus.tokenizer.decode(first) == "story 0"


PEAK = """
import resource, sys
from seqloom.data.corpora import read
from seqloom.data.split import hold_out

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for side in hold_out(read(sys.argv[1], separator=sys.argv[2] if len(sys.argv) > 2 else None), 0.05, 0):
    sum(len(document.text) for document in side)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="asks for the peak of the memory")
@pytest.mark.parametrize("kind", ["jsonl", "txt"])
def test_a_large_file_takes_passes_and_not_memory(tmp_path: Path, kind: str) -> None:
    text = "some words of a long text " * 40
    with (tmp_path / f"a.{kind}").open("w") as file:
        for number in range(64 << 10):
            file.write(f'{{"text": "{number} {text}"}}\n' if kind == "jsonl" else f"{number} {text}\n<|end|>\n")
    command = [sys.executable, "-c", PEAK, tmp_path / f"a.{kind}", *(["<|end|>"] if kind == "txt" else [])]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(answer.stdout) * unit < (tmp_path / f"a.{kind}").stat().st_size / 4
