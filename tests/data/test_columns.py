"""Documents from Parquet and from folders of `datasets`: in order, repeatably, without holding them in memory."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqloom.data import columns
from seqloom.data.corpora import read
from seqloom.data.documents import Document
from seqloom.data.prepare import prepare

TEXTS = ["\ufeffone\r\ntwo", "", None, "thrée"]
DOCUMENTS = [Document("a.parquet:1", "one\ntwo"), Document("a.parquet:4", "thrée")]


def table(path: Path, texts: list[str | None], column: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(len(texts)), column: pa.array(texts, pa.string())}), path, row_group_size=2)
    return path


def test_parquet_rows_are_documents_in_every_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = read(table(tmp_path / "a.parquet", TEXTS))
    assert list(documents) == list(documents) == DOCUMENTS
    assert documents.skipped == {"rows without text": 2}
    assert capsys.readouterr().err.count("2 rows have no text") == 1
    assert list(read(table(tmp_path / "a.parquet", TEXTS, "content"), column="content")) == DOCUMENTS


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_every_kind_of_string(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"text": pa.array(["a", "b", "a"]).cast(kind)}), tmp_path / "a.parquet")
    assert [document.text for document in read(tmp_path / "a.parquet")] == ["a", "b", "a"]


NESTED = [{"text": "one", "n": 1}, None, {"text": None, "n": 2}, {"text": "two", "n": 3}]


def test_a_column_inside_another(tmp_path: Path) -> None:
    rows = pa.table({"meta": NESTED, "id": ["a", "b", "c", "d"], "dotted.text": ["A", "B", "C", "D"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    saved_folder(tmp_path, pa.array(NESTED))
    for source, column in ((tmp_path / "a.parquet", "meta.text"), (tmp_path, "text.text")):
        documents = read(source, column=column)
        assert [document.text for document in documents] == ["one", "two"]
        assert documents.skipped["rows without text"] == 2
    assert [document.text for document in read(tmp_path / "a.parquet", column="dotted.text")] == ["A", "B", "C", "D"]
    there = r"there is meta\.text \(string\), meta\.n \(int64\), id \(string\), dotted\.text \(string\): name one"
    for column, message in (
        ("meta.title", "no column 'meta.title'"),
        ("text", "no column 'text'"),
        ("meta.n", "int64"),
    ):
        with pytest.raises(ValueError, match=f"{message}.*{there}"):
            read(tmp_path / "a.parquet", column=column)


def test_a_folder_of_parquet_is_read_in_order(tmp_path: Path) -> None:
    for name in ("data/b.parquet", "data/a.parquet", "c.parquet"):
        table(tmp_path / name, [name])
    (tmp_path / "README.md").write_text("none")
    (tmp_path / "x.csv").write_text("none")
    documents = read(tmp_path)
    assert [document.text for document in documents] == ["c.parquet", "data/a.parquet", "data/b.parquet"]
    assert documents.skipped == {"READMEs": 1, ".csv files": 1}
    (tmp_path / "a.txt").write_text("a text")
    assert [document.text for document in read(tmp_path)] == ["a text"], "texts go before, as they always did"


@pytest.mark.slow
def test_a_folder_of_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    data = datasets.Dataset.from_dict({"text": ["a", "b", "c"]})
    data.select([2, 0]).save_to_disk(tmp_path / "one", num_shards=2)
    assert [document.text for document in read(tmp_path / "one")] == ["c", "a"]
    datasets.DatasetDict({"test": data.select([1]), "train": data}).save_to_disk(tmp_path / "splits")
    documents = read(tmp_path / "splits")
    assert [document.text for document in documents] == ["a", "b", "c"]
    assert documents.skipped == {"split test": 1}
    datasets.DatasetDict({"x": data, "y": data}).save_to_disk(tmp_path / "unclear")
    with pytest.raises(ValueError, match=r"there are the splits x, y: name one, as .*unclear/x"):
        read(tmp_path / "unclear")


def test_no_file_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../x.arrow"}]}')
    with pytest.raises(ValueError, match="no name of a file in its folder"):
        read(tmp_path)


@pytest.mark.parametrize("files", ["3", '"x"', "true", "null", "{}", "[]", "[3]", "[[]]", '[{"filename": 3}]'])
def test_files_that_datasets_did_not_list(tmp_path: Path, files: str) -> None:
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / "state.json").write_text(f'{{"_data_files": {files}}}')
    with pytest.raises(ValueError, match=r"state\.json names ") as raised:
        read(tmp_path)
    assert "\n" not in str(raised.value)


def damaged(path: Path) -> None:
    table(path, ["a long text " * 50] * 50)
    whole = bytearray(path.read_bytes())
    whole[40:200] = bytes(160)
    path.write_bytes(whole)


BAD = {
    "no-column": (lambda path: table(path, ["a"], "content"), r"no column 'text'; there is id \(int64\), content"),
    "number": (lambda path: pq.write_table(pa.table({"text": [1]}), path), "holds int64, not strings"),
    "no-parquet": (lambda path: path.write_text("text"), "damaged, or of another format"),
    "empty-file": (lambda path: path.write_text(""), "damaged, or of another format"),
    "no-rows": (lambda path: table(path, []), "empty: no row has any text"),
    "blank": (lambda path: table(path, [" ", None]), "empty: no row has any text"),
    "damaged": (damaged, "damaged, or of another format"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_bad_parquet_is_one_line(tmp_path: Path, make, message: str) -> None:
    make(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message) as caught:
        list(read(tmp_path / "a.parquet"))
    assert "a.parquet: " in str(caught.value)
    assert "\n" not in str(caught.value)


def saved_folder(folder: Path, texts: pa.Array) -> Path:
    """The file of a folder as `datasets` saves it, with the column `text`."""
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "a.arrow"}]}))
    batch = pa.record_batch({"text": texts})
    with pa.ipc.new_stream(folder / "a.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    return folder / "a.arrow"


LONG = "a view, whose text is elsewhere"
OFFSETS = {
    "offset": (pa.string(), struct.pack("<3i", 0, 6, 12), struct.pack("<3i", 0, 2**31 - 1, 12)),
    "falling": (pa.string(), struct.pack("<3i", 0, 6, 12), struct.pack("<3i", 0, 12, 6)),
    "large": (pa.large_string(), struct.pack("<3q", 0, 6, 12), struct.pack("<3q", 0, 2**50, 12)),
    "view": (pa.string_view(), struct.pack("<i4s2i", 31, b"a vi", 0, 60), struct.pack("<i4s2i", 31, b"a vi", 0, 2**30)),
    "index": (pa.dictionary(pa.int32(), pa.string()), struct.pack("<3i", 0, 1, 2), struct.pack("<3i", 0, 2**30, 2)),
    "letters": (pa.string(), b"text 1", b"text \xff"),
    "size": (pa.string(), struct.pack("<2q", 48, 91), struct.pack("<2q", 48, 2**50)),
    "body": (pa.string(), struct.pack("<q", 144), struct.pack("<q", 2**50)),
}
"""a kind of column, bytes of its file, and what they are changed to; some ended the process where they were read"""


@pytest.mark.parametrize(("kind", "old", "new"), OFFSETS.values(), ids=OFFSETS)
def test_a_changed_offset_is_found_before_it_is_followed(
    tmp_path: Path, kind: pa.DataType, old: bytes, new: bytes
) -> None:
    texts = [*(f"text {number}" for number in range(10)), LONG]
    path = saved_folder(tmp_path, pa.array(texts).cast(kind))
    assert [document.text for document in read(tmp_path)] == texts
    whole = path.read_bytes()
    assert whole.count(old) == 1
    path.write_bytes(whole.replace(old, new))
    with pytest.raises(ValueError, match=r"a\.arrow: damaged, or ") as caught:
        list(read(tmp_path))
    assert "\n" not in str(caught.value)


def test_parquet_is_checked_in_the_same_way(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", ["text 1", "text 2"])
    path.write_bytes(path.read_bytes().replace(b"text 1", b"text \xff"))
    with pytest.raises(ValueError, match=r"a\.parquet: damaged, or of another format .*UTF8"):
        list(read(path))


def test_pyarrow_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path / "a.parquet", ["a"])
    monkeypatch.setattr(columns, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'seqloom\[data\]'"):
        read(tmp_path / "a.parquet")


def test_a_file_that_changes_between_two_passes_is_an_error(tmp_path: Path) -> None:
    documents = read(table(tmp_path / "a.parquet", ["a", "b"]))
    assert len(list(documents)) == 2
    table(tmp_path / "a.parquet", ["a", "b", "another text"])
    with pytest.raises(ValueError, match="was changed while it was read"):
        list(documents)


def test_ids_of_parquet_are_those_of_the_same_texts(tmp_path: Path) -> None:
    texts = [f"text number {n} of a small corpus" for n in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    table(tmp_path / "a.parquet", texts)
    corpora = [prepare(tmp_path / f"a.{kind}", vocab=300, context=8, cache=tmp_path) for kind in ("jsonl", "parquet")]
    assert corpora[0].identity == corpora[1].identity
    assert corpora[1].survey.documents == 60
    assert corpora[1].survey.longest[0] == ("a.parquet:11", len(texts[10]))


PEAK = """
import resource, sys
from seqloom.data.corpora import read
from seqloom.data.split import hold_out
list(read(sys.argv[1]))  # pyarrow is loaded
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for side in hold_out(read(sys.argv[2]), 0.05, 0):
    side.characters
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_a_large_corpus_takes_passes_and_not_memory(tmp_path: Path) -> None:
    small = table(tmp_path / "small.parquet", ["a", "b"])
    large = tmp_path / "large.parquet"
    schema = pa.schema({"text": pa.string()})
    with pq.ParquetWriter(large, schema, compression="none", use_dictionary=False) as writer:
        for group in range(256):
            texts = [f"{group} {row} " + "some words of a long text " * 40 for row in range(512)]
            writer.write_table(pa.table({"text": texts}, schema))
    command = [sys.executable, "-c", PEAK, str(small), str(large)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(answer.stdout) * unit < large.stat().st_size / 4
