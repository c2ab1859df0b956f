"""Files of word vectors: three formats are read alike, damaged files raise one line, embeddings are set to them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.cli import command
from seqloom.data.vectors import open_vectors, write_vectors
from seqloom.models.textcnn import TextCNN
from seqloom.training.preparation import learner_of, prepare_run
from seqloom.training.settings import resolve

WORDS = ["the", "cat", "déjà", ",", "IN"]
NUMBERS = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
LINES = [f"{word} {' '.join(f'{x:.6g}' for x in row)}" for word, row in zip(WORDS, NUMBERS, strict=True)]
HEAD = "5 7\n"
RAW = b"5 7\n" + b"".join(f"{w} ".encode() + row.tobytes() + b"\n" for w, row in zip(WORDS, NUMBERS, strict=True))
FORMS = {
    "word2vec.txt": (HEAD + "\n".join(f"{line} " for line in LINES) + "\n").encode(),
    "word2vec.bin": RAW,
    "unbroken.bin": b"5 7\n" + b"".join(f"{w} ".encode() + r.tobytes() for w, r in zip(WORDS, NUMBERS, strict=True)),
    "glove.txt": "\n".join(LINES).encode(),
}


@pytest.mark.parametrize("name", FORMS)
def test_three_forms_are_read_alike(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMS[name])
    file = open_vectors(tmp_path / name)
    assert (file.form, file.width) == ("glove" if "glove" in name else name[-3:].replace("txt", "text"), 7) or (
        file.form == "binary" and name.endswith(".bin")
    )
    words, vectors = file.read()
    assert words == WORDS
    np.testing.assert_allclose(vectors, NUMBERS, rtol=1e-5)
    words, vectors = file.read({"cat", "IN", "dog"})
    assert words == ["cat", "IN"]
    np.testing.assert_allclose(vectors, NUMBERS[[1, 4]], rtol=1e-5)


@pytest.mark.parametrize("name", ["mine.txt", "mine.bin"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    write_vectors(tmp_path / name, WORDS, NUMBERS)
    file = open_vectors(tmp_path / name)
    assert file.form == ("binary" if name.endswith("bin") else "text")
    words, vectors = file.read()
    assert words == WORDS
    np.testing.assert_allclose(vectors, NUMBERS, rtol=1e-5)


def test_words_of_glove_hold_blanks_and_the_first_of_two_counts(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("a 1 2\n. . . 3 4\na 5 6\n")
    words, vectors = open_vectors(tmp_path / "glove.txt").read()
    assert words == ["a", ". . ."]
    assert vectors.tolist() == [[1, 2], [3, 4]]


BROKEN: dict[str, tuple[bytes, str]] = {
    "width.txt": (b"2 3\na 1 2 3\nb 1 2\n", "width.txt, line 3: 2 numbers, where the first has 3"),
    "wide.txt": (b"2 3\na 1 2 3\nb 1 2 3 4\n", "wide.txt, line 3: 4 numbers, where the first has 3"),
    "glove.txt": (b"a 1 2 3\nb 1 2\n", "glove.txt, line 2: 2 numbers, where the first has 3"),
    "half.txt": (b"3 2\na 1 2\nb 1 2\n", "half.txt: truncated: its first line says 3 words, and it ends after 2"),
    "more.txt": (b"1 2\na 1 2\nb 1 2\n", "line 3: the first line says 1 words, and here is another"),
    "nan.txt": (b"1 2\na 1 nan\n", "nan.txt, line 2: a number that is not finite"),
    "word.txt": (b"a 1 x2\n", "not vectors of words, as word2vec and GloVe write them"),
    "text.txt": (b"Once upon a time\n", "not vectors of words, as word2vec and GloVe write them"),
    "empty.txt": (b"", "empty.txt: empty: there are no vectors in it"),
    "none.txt": (b"0 7\n", "0 words with 7 numbers each are no vectors"),
    "packed.gz": (b"\x1f\x8b\x08abc", "a packed file: unpack it first"),
    "half.bin": (RAW[:-9], "half.bin: truncated: its first line says 5 words, and it ends after 4"),
    "less.bin": (RAW[:60], "less.bin: truncated: its first line says 5 words, and it ends after 1"),
    "more.bin": (RAW + b"dog 1234", "more.bin: the first line says 5 words, and more follow"),
    "latin.bin": (b"1 2\n\xff\xfe " + b"\x00" * 8, "latin.bin, word 1: the word is not UTF-8 text"),
    "other.bin": (b"9 2\n" + RAW[4:] + b"z" * 5000, "other.bin, word"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_one_line(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r".") as caught:
        open_vectors(tmp_path / name).read()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    lines = [f"{'ab'[n % 2]}\tThe cat, in {n}" for n in range(40)]
    (tmp_path / "labels.tsv").write_text("\n".join(lines))
    (tmp_path / "book.txt").write_text("The cat, in a house. " * 100)
    (tmp_path / "glove.txt").write_bytes(FORMS["glove.txt"])
    (tmp_path / "other.txt").write_text("eins 1 2 3 4 5 6 7\n")
    return tmp_path


TINY = ("model.dim=7", "training.batches=2", "training.device=cpu", "training.schedule.kind=constant")


def test_both_channels_are_initialized_with_them(labels: Path) -> None:
    changes = [*TINY, f"training.vectors={labels}/glove.txt"]
    config, corpus = prepare_run(resolve("classifier/textcnn", changes, str(labels / "labels.tsv")))
    assert corpus is not None
    assert f"3 of {corpus.tokenizer.vocab} tokens begin with vectors of {labels}/glove.txt" in corpus.description
    model = learner_of(config, corpus).model
    assert isinstance(model, TextCNN)
    assert model.token is not None
    assert model.static is not None
    assert torch.equal(model.token.weight, model.static)
    for name, row in {"The": 0, "cat": 1, ", ": 3}.items():  # The as the; in lower case it is not IN
        np.testing.assert_allclose(model.static[corpus.tokenizer.names.index(name)], NUMBERS[row], rtol=1e-5)
    other = model.static[corpus.tokenizer.names.index("in")]
    result = NUMBERS[[0, 1, 3]]
    assert float(other.abs().max()) <= np.sqrt(3 * result.var()) * 1.001
    again = learner_of(config, prepare_run(config)[1]).model
    assert torch.equal(again.static, model.static)


@pytest.mark.parametrize(("preset", "data"), [("tiny", "book.txt"), ("seq2seq/dates", "pairs:dates:40")])
def test_other_models_read_them_as_they_are(labels: Path, preset: str, data: str) -> None:
    (labels / "dates.txt").write_text("May 1 2 3 4 5 6 7 8\ncat 8 7 6 5 4 3 2 1\n")
    name, source = ("cat", str(labels / data)) if preset == "tiny" else ("May", data)
    heads = ["model.mixer={kind: she}"] if preset == "tiny" else ["model.mixer.heads=2", "model.encoder.mixer.heads=2"]
    changes = ["model.dim=8", "data.tokenizer=words", f"training.vectors={labels}/dates.txt", *heads]
    config, corpus = prepare_run(resolve(preset, changes, source))
    assert corpus is not None
    model = learner_of(config, corpus).model
    id = corpus.tokenizer.names.index(name)
    scale = 8**0.5 if config.layered_model.embed_scale else 1
    expected = [1, 2, 3, 4, 5, 6, 7, 8] if name == "May" else [8, 7, 6, 5, 4, 3, 2, 1]
    torch.testing.assert_close(model.token.weight[id] * scale, torch.tensor(expected).float())


REFUSED: list[tuple[str, list[str], str]] = [
    ("classifier/textcnn", ["model.dim=8"], "its vectors have 7 numbers, and model.dim=8: set model.dim=7"),
    ("classifier/textcnn", ["training.vectors=nowhere"], "nowhere: there is no such file of vectors"),
    ("classifier/textcnn", ["training.vectors={labels}/other.txt"], "has none of the words of the text"),
    ("classifier/textcnn", ["data.tokenizer=bytes"], "set data.tokenizer=words"),
    ("classifier/textcnn", ["training.begin=runs/x"], "begin and vectors both initialize the embedding"),
    ("ngram/hmm", [], "model.kind=hmm counts, without gradients: leave training.vectors out"),
]


@pytest.mark.parametrize(("preset", "changes", "message"), REFUSED, ids=str)
def test_errors_of_vectors_in_one_line(
    labels: Path, preset: str, changes: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [*([] if preset.startswith("ngram") else TINY), f"training.vectors={labels}/glove.txt", *changes]
    words = [part for change in sets for part in ("--set", change.replace("{labels}", str(labels)))]
    data = labels / ("book.txt" if preset.startswith("ngram") else "labels.tsv")
    assert command(["train", preset, *words, "--data", str(data), "--out", str(labels / "none")]) == 2
    printed = capsys.readouterr().err.strip().splitlines()
    assert message in printed[-1]
    assert len([line for line in printed if line.startswith("seqloom:")]) == 1
    assert not (labels / "none").exists()
