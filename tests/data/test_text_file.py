"""Compressed text files: read by their ending, in pieces, with errors in one line."""

import gzip
import lzma
from pathlib import Path

import pytest

from seqloom.core import available_memory
from seqloom.data import text_file
from seqloom.data.corpora import read
from seqloom.data.labels import from_file
from seqloom.data.pairs import read_pairs
from seqloom.data.text_file import split_text, stem_of, suffix_of, text_parts

TEXT = "\ufeffone\r\ntwo thrée " * 50


def test_names_of_text_file() -> None:
    assert [suffix_of(Path(name)) for name in ("A.TXT.gz", "a.txt", "a.gz", "a", "b.x.JSONL.Zst")] == [
        *(".txt", ".txt", "", "", ".jsonl"),
    ]
    assert [stem_of(Path(name)) for name in ("README.md.xz", "README.md", "a.b.c")] == ["README", "README", "a.b"]


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_compressed_text_is_the_text(tmp_path: Path, ending: str, compress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_AT_ONCE", 100)
    (tmp_path / f"a.txt{ending}").write_bytes(compress(TEXT[:300].encode()) + compress(TEXT[300:].encode()))
    (tmp_path / f"b.jsonl{ending}").write_bytes(compress(b'{"text": "a line"}\n{"text": "another"}\n'))
    (tmp_path / f"README.md{ending}").write_bytes(compress(b"no"))
    documents = read(tmp_path)
    plain_text = TEXT.replace("\r\n", "\n").removeprefix("\ufeff")
    assert [document.text for document in documents] == [plain_text, "a line", "another"]
    assert documents.skipped == {"READMEs": 1}
    (tmp_path / f"c.tsv{ending}").write_bytes(compress(b"source\ttarget\n"))
    assert [pair.target for pair in read_pairs(tmp_path / f"c.tsv{ending}")] == ["target"]
    assert from_file(tmp_path / f"c.tsv{ending}")[0].label == "source"


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_file_that_was_cut_or_changed_is_named(tmp_path: Path, ending: str, compress) -> None:
    path = tmp_path / f"a.txt{ending}"
    whole = compress(TEXT.encode())
    for number in (*range(1, len(whole), 7), None):
        path.write_bytes(whole[:number] if number else whole[:40] + b"\xff" + whole[41:])
        with pytest.raises(ValueError, match=rf"a\.txt{ending}: damaged, or not compressed as its name says") as caught:
            list(read(path))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
def test_a_text_in_parts_is_the_text(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_AT_ONCE", size)
    (tmp_path / "a").write_bytes("\ufeffa\r\n\rb\r\r\nthr\u00e9e \U0001f600\ufeff\r".encode())
    assert "".join(text_parts(tmp_path / "a")) == "a\n\nb\n\nthr\u00e9e \U0001f600\ufeff\n"
    (tmp_path / "a").write_bytes("\u00e9\u4e2d".encode()[:-1])
    with pytest.raises(ValueError, match="not UTF-8 at byte offset 2; convert"):
        list(text_parts(tmp_path / "a"))
    (tmp_path / "a").write_bytes("\u00e9\u4e2d\0".encode())
    with pytest.raises(ValueError, match="NUL byte at offset 5"):
        list(text_parts(tmp_path / "a"))


@pytest.mark.parametrize("separator", ["\n", "<|end|>", "aa"])
def test_a_text_in_parts_is_split_as_a_whole(separator: str) -> None:
    text = "a\n\nbb<|end|><|end|>aaab\n" * 7
    for size in (1, 2, 5, 40, 1000):
        parts = [text[start : start + size] for start in range(0, len(text), size)]
        assert list(split_text(parts, separator)) == text.split(separator)


def test_zstandard_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt.zst").write_bytes(b"")
    monkeypatch.setattr(text_file, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"a\.txt\.zst: reading it needs zstandard: pip install 'seqloom\[zst\]'"):
        read(tmp_path / "a.txt.zst")


def test_zst(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    whole = zstandard.compress(TEXT[:300].encode()) + zstandard.compress(TEXT[300:].encode())
    (tmp_path / "a.txt.zst").write_bytes(whole)
    assert read(tmp_path / "a.txt.zst").characters == len(TEXT.replace("\r\n", "\n")) - 1
    for damaged in (b"no frame" + whole, whole[:-5], whole[:10], whole[:30] + b"\xff" + whole[31:]):
        (tmp_path / "a.txt.zst").write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged, or not compressed"):
            list(read(tmp_path / "a.txt.zst"))


@pytest.mark.slow
def test_what_becomes_too_large_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_AT_ONCE", 1000)
    monkeypatch.setattr(available_memory, "available_memory", lambda: 50_000)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"word " * 2_000_000))
    with pytest.raises(ValueError, match=r"reading .*a\.txt\.gz needs at least .* of memory, and .* are available"):
        list(read(tmp_path / "a.txt.gz"))
