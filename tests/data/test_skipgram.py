"""Word vectors learned by skip-gram, and the nearest words of a file; `data SOURCE` is unchanged."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from seqloom.cli import command
from seqloom.data.documents import Document, Documents
from seqloom.data.skipgram import LONGEST, Sentences
from seqloom.data.vectors import nearest, open_vectors, write_vectors


@pytest.fixture
def file(tmp_path: Path) -> Path:
    vectors = np.array([[1, 0], [2, 0.1], [0, 3], [-1, 0], [0, 0]], np.float32)
    write_vectors(tmp_path / "v.bin", ["cat", "kitten", "house", "not", "empty"], vectors)
    return tmp_path / "v.bin"


def test_the_nearest_by_cosine() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    actual = nearest(vectors, 7, 3)
    cosines = [float(v @ vectors[7] / np.linalg.norm(v) / np.linalg.norm(vectors[7])) for v in vectors]
    expected = sorted((number for number in range(50) if number != 7), key=lambda number: -cosines[number])[:3]
    assert [number for number, _ in actual] == expected
    np.testing.assert_allclose([cosine for _, cosine in actual], [cosines[number] for number in expected], rtol=1e-5)


def test_nearest_words_are_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["data", "nearest", str(file), "cat", "house", "--count", "2"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["cat", "cosine"]
    assert printed[2].split()[0] == "kitten"
    assert command(["data", "nearest", str(file), "cat", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["cat"]
    assert [row["word"] for row in rows] == ["kitten", "house", "empty", "not"]
    assert rows[0]["cosine"] == pytest.approx(2 / np.hypot(2, 0.1), rel=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nearest", "{file}", "kiten"], "has no vector of the word 'kiten'; did you mean 'kitten'"),
        (["nearest", "nowhere", "cat"], "nowhere: there is no such file of vectors"),
        (["nearest", "{file}"], "Missing argument 'words'"),
        (["vectors", "stories:3", "--out", "{file}"], "exists already: choose another --out"),
        (["nowhere"], "no such file or folder"),
        ([], "Missing argument 'source'"),
    ],
)
def test_errors_of_skipgram_in_one_line(
    file: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["data", *(word.replace("{file}", str(file)) for word in words)]) == 2
    printed = capsys.readouterr().err.strip()
    assert message.lower() in printed.lower()
    assert "\n" not in printed


def test_a_missing_library_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "gensim", None)
    assert command(["data", "vectors", "stories:3", "--out", str(tmp_path / "v.txt")]) == 2
    assert "gensim is not installed: pip install 'seqloom[vectors]'" in capsys.readouterr().err


@pytest.mark.slow
def test_sentences_are_lines_of_words() -> None:
    document = Document("it", "Don't go, (now).\n\nThe  end\n" + "x " * (LONGEST + 1))
    first, *others = [sentence for sentence in Sentences(Documents.of([document])) if sentence]
    assert first == ["Don't", "go", ",", "(", "now", ")", "."]
    assert [len(sentence) for sentence in others] == [2, LONGEST, 1]


@pytest.mark.slow
def test_words_of_one_kind_are_near(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gensim")
    draw = np.random.default_rng(0)
    kinds = {"animal": ("cat", "dog", "cow"), "tool": ("saw", "axe", "file")}
    verbs = {"animal": ("eats", "sleeps", "drinks"), "tool": ("cuts", "rusts", "breaks")}
    lines = []
    for _ in range(3000):
        kind = ("animal", "tool")[draw.integers(2)]
        lines.append(" ".join(str(draw.choice(words)) for words in (kinds[kind], verbs[kind], verbs[kind])))
    (tmp_path / "book.txt").write_text("\n".join(lines))
    learn = ["data", "vectors", str(tmp_path / "book.txt"), "--dim", "16", "--window", "2"]
    for out in ("a.txt", "b.txt", "c.bin"):
        assert command([*learn, "--out", str(tmp_path / out)]) == 0
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()
    assert open_vectors(tmp_path / "c.bin").form == "binary"
    capsys.readouterr()
    for kind, nouns in kinds.items():
        for words in (nouns, verbs[kind]):
            assert command(["data", "nearest", str(tmp_path / "c.bin"), words[0], "--count", "2", "--json"]) == 0
            for row in json.loads(capsys.readouterr().out)[words[0]]:
                assert row["word"] in (*nouns, *verbs[kind])
    assert command([*learn, "--least", "9999", "--out", str(tmp_path / "d.txt")]) == 2
    assert "no word comes 9999 times: lower --least, or add text" in capsys.readouterr().err
    assert not (tmp_path / "d.txt").exists()
