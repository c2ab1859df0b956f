"""A prepared corpus: built once, opened afterwards, rebuilt if damaged, an error if too short."""

import random

import numpy as np
import pytest

from seqloom.data import prepare as rooms
from seqloom.data.corpora import read
from seqloom.data.documents import Document, unwrap
from seqloom.data.prepare import Corpus, encode_documents, prepare
from seqloom.data.split import hold_out
from seqloom.data.tokenizer import Tokenizer

TEXT = "the little girl went into a dark wood and there she saw an old house of bread with white sugar windows"
WORDS = TEXT.split()


@pytest.fixture
def folder(tmp_path):
    draw = random.Random(0)
    place = tmp_path / "books"
    place.mkdir()
    for n in range(30):
        lines = [" ".join(draw.choices(WORDS, k=8)) + (" <eos>" if draw.random() < 0.1 else "") for _ in range(20)]
        (place / f"{n}.txt").write_text("\n".join(lines))
    return place


@pytest.fixture
def make(folder, tmp_path):
    def make(**changes) -> Corpus:
        return prepare(
            **{"source": folder, "vocab": 300, "context": 16, "unwrap": True, "cache": tmp_path / "cache", **changes}
        )

    return make


@pytest.mark.slow
def test_ids_are_the_documents(make, folder) -> None:
    corpus = make()
    train, held = map(list, hold_out(read(folder), 0.05, 0))
    for tokens, documents in ((corpus.train, train), (corpus.held_out, held)):
        assert tokens.documents == len(documents)
        for start, end, size, document in zip(tokens.starts, tokens.ends, tokens.sizes, documents, strict=True):
            text = unwrap(document.text)
            ids = tokens.ids[start:end].tolist()
            assert ids == [*corpus.tokenizer.encode(text), 0]
            assert 0 not in ids[:-1]
            assert corpus.tokenizer.decode(ids) == text
            assert size == len(text.encode())
    alone = Tokenizer.train([unwrap(document.text) for document in train], 300)
    assert corpus.tokenizer.json == alone.json
    assert "300" in corpus.description


@pytest.mark.slow
def test_a_second_call_builds_nothing(make, monkeypatch) -> None:
    first = make()
    monkeypatch.setattr(rooms, "hold_out", None)
    monkeypatch.setattr(rooms, "document_ids", None)
    second = make()
    assert (second.identity, second.description) == (first.identity, first.description)
    np.testing.assert_array_equal(second.train.ids, first.train.ids)
    assert make(context=8).identity == first.identity


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"vocab": 301}, {"held_out": 0.2}, {"seed": 1}, {"unwrap": False}, {"unwrap": "auto"}]
)
def test_settings_and_text_are_the_identity(make, folder, change: dict) -> None:
    first = make().identity
    assert make(**change).identity != first
    (folder / "3.txt").write_text("another text " * 20)
    assert make().identity != first


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern", ["train-*/*.ids", "held-*/*.ids", "train-*/manifest.json", "tokenizer.json", "tokenizer.sha256"]
)
@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_damaged_files_are_built_again_with_a_message(make, tmp_path, capsys, pattern: str, damage: str) -> None:
    first = make()
    train, held = first.train.ids.copy(), first.held_out.ids.copy()  # the damage is done under their mapping
    [path] = (tmp_path / "cache").rglob(pattern)
    whole = bytearray(path.read_bytes())
    whole[-9] ^= 1
    path.write_bytes(whole if damage == "flip" else whole[:-9])
    capsys.readouterr()
    second = make()
    assert "again" in capsys.readouterr().err
    np.testing.assert_array_equal(second.train.ids, train)
    np.testing.assert_array_equal(second.held_out.ids, held)
    make()
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_wraps_stay_where_asked(make) -> None:
    corpus = make(unwrap=False)
    assert "\n" in corpus.tokenizer.decode(corpus.train.ids[:200].tolist())
    joined = make()
    assert "\n" not in joined.tokenizer.decode(joined.train.ids[:200].tolist())


@pytest.mark.slow
def test_a_smaller_vocabulary_is_reported_each_time(make, capsys) -> None:
    for _ in range(2):
        corpus = make(vocab=5000)
        assert corpus.tokenizer.vocab < 5000
        assert f"the vocabulary is {corpus.tokenizer.vocab}, not 5000" in capsys.readouterr().err


def test_one_file_is_cut_near_its_end(tmp_path, folder) -> None:
    path = tmp_path / "one.txt"
    path.write_text(" ".join(WORDS * 100))
    corpus = prepare(path, vocab=300, context=8, cache=tmp_path / "cache")
    assert (corpus.train.documents, corpus.held_out.documents) == (1, 1)
    assert corpus.held_out.sizes.sum() / corpus.train.sizes.sum() == pytest.approx(0.05 / 0.95, rel=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"vocab": 256}, "at least 257"), ({"context": 10**6}, "needs 1000001"), ({"held_out": 1.5}, "between 0 and 1")],
)
def test_errors_of_prepare_are_one_line(make, change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(**change)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_documents_with_a_given_tokenizer() -> None:
    tokenizer = Tokenizer.train(["a b c " * 20], 260)
    tokens = encode_documents([Document("x", "é\nb"), Document("y", "c")], tokenizer)
    assert tokenizer.decode(tokens.ids[tokens.starts[0] : tokens.ends[0]].tolist()) == "é b"
    assert tokens.sizes.tolist() == [4, 1]
    assert len(encode_documents([Document("x", "a b " * 50000)], tokenizer, unwrap=False)) > 1
    with pytest.raises(ValueError, match="empty"):
        encode_documents([], tokenizer)
