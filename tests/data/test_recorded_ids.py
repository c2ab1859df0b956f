"""The ids and the identity of a text are those that were recorded when texts were held in memory."""

import gzip
import hashlib
import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from seqloom.data.prepare import prepare
from seqloom.data.stories import corpus
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens

LINES = ("38dcee8b2c0968a8", "d703cf02fe930604", "b87cbc1e3e78cf22")
BYTES = ("a1e965596920db0e", "06685e11f28f59b7", "5bfa819802a4ee5e")
RECORDED = {
    ("txt", 300): ("44f2c6219df800e6", "f3b157d3ddf94755", "920a380e36953d89"),
    ("txt", None): ("7b240274ce56f08b", "3fa02da716ee8249", "922fe22539b05af9"),
    ("one.txt", 300): ("0ce118e403479366", "a7ec65100420d1da", "338a7a4e275be927"),
    ("one.txt", None): ("e531ca4452831bfa", "6f0569646d5cbd8f", "37d87c5a906b95a4"),
    ("mixed", 300): ("b4f87afbfb541832", "b374d16ae26c2980", "fe213bd4a4f8196c"),
    ("mixed", None): ("24ab162f7b6a4d65", "63297731d75a663e", "943fc941eb0e1ad2"),
    **{(name, 300): LINES for name in ("a.jsonl", "a.jsonl.gz", "a.parquet")},
    **{(name, None): BYTES for name in ("a.jsonl", "a.jsonl.gz", "a.parquet")},
}
"""identity, training ids and held-out ids, by source and vocabulary (None: bytes)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    texts = list(corpus(60, 5))
    words = ("the quick brown fox jumps over the lazy dog " * 3).split()
    texts[7] = "\n".join(" ".join(words[first : first + 12]) for first in range(12))
    texts[9] = "caf\u00e9 \u4e2d\u6587 \U0001f600 " * 20
    texts[11] = "a\r\nb\rc\r\n\r\nd e f g"
    for name in ("txt/sub", "mixed"):
        (folder / name).mkdir(parents=True)
    for number, text in enumerate(texts):
        path = folder / ("txt" if number % 3 else "txt/sub") / f"{number:02}.txt"
        path.write_bytes((f"\ufeff{text}" if number == 3 else text).encode())
    rows = [text if number != 13 else None for number, text in enumerate(texts)]
    lines = [json.dumps({"text": text, "n": number}) for number, text in enumerate(rows)]
    lines[20] += "\n"
    text = "\n".join(lines) + "\n"
    (folder / "a.jsonl").write_text(text)
    (folder / "mixed/b.jsonl").write_text(text)
    with gzip.open(folder / "a.jsonl.gz", "wt") as file:
        file.write(text)
    (folder / "one.txt").write_text("\n\n".join(texts))
    (folder / "mixed/a.txt").write_text(texts[0])
    (folder / "mixed/c.txt").write_text(texts[2] * 3)
    parquet.write_table(pyarrow.table({"text": rows}), folder / "a.parquet")
    return folder


def digest(tokens: Tokens) -> str:
    return hashlib.sha256(tokens.ids.tobytes() + tokens.starts.tobytes() + tokens.sizes.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(("source", "vocab"), RECORDED)
def test_ids_are_those_that_were_recorded(folder: Path, tmp_path: Path, source: str, vocab: int | None) -> None:
    tokenizer = None if vocab else Tokenizer.of_bytes()
    corpus = prepare(folder / source, context=4, cache=tmp_path, held_out=0.2, seed=1, vocab=vocab, tokenizer=tokenizer)
    assert (corpus.identity[:16], digest(corpus.train), digest(corpus.held_out)) == RECORDED[source, vocab]
