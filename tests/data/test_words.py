"""A tokenizer of words: texts are restored, unknown words are counted and have no bits per byte, runs store it."""

import itertools
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from seqloom.cli import command
from seqloom.data.documents import Document
from seqloom.data.pieces import pieces
from seqloom.data.prepare import encode_documents, prepare
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.words import train_words
from seqloom.evaluation.scores import score
from seqloom.face import load
from seqloom.models.kinds import model_config
from seqloom.runs.layout import find_run
from seqloom.studies.eval_text import eval_text

TEXT = "\"Don't go (yet),\" said déjà-vu — 漢字 no 3.14, _it_ & 'tis so.\n\nThe end; the END!\n"
TINY = (
    *("model.dim=8", "model.ffn=8", "model.depth=1", "model.context=8", "model.mixer.kind=attention"),
    *("model.mixer.heads=2", "training.batches=2", "training.batch=2", "training.device=cpu"),
)


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return train_words([TEXT], 300)


def test_a_text_comes_back(words: Tokenizer) -> None:
    ids = words.encode(TEXT)
    assert words.decode(ids) == TEXT
    assert words.unknown == 1
    assert not {words.eos, 1} & set(ids)
    names = [words.names[id] for id in ids]
    assert names[:8] == ['"', "Don't", "go", " (", "yet", ")", ",", '" ']


def test_any_known_words_between_any_signs_come_back(words: Tokenizer) -> None:
    draw = random.Random(0)
    known = ["go", "said", "Don't", "no", "3", "漢字", "END"]
    signs = "\"(),.—;!&-_'"
    tokenizer = train_words([" ".join(known) + "".join(f"{a}{s}{b}" for s in signs for a in " x" for b in " x")], 300)
    for _ in range(300):
        text = draw.choice(known)
        for _ in range(12):
            text += draw.choice([" ", "\n", "\n\n", *signs, *(f"{sign} " for sign in signs)]) + draw.choice(known)
        ids = tokenizer.encode(text)
        if 1 not in ids:
            assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go  \t so", "go so"),
        ("go\u00a0so", "go so"),
        (" so\n\n\ngo ", "so <unk> go"),
        ("so wonderful, so", "so <unk>, so"),
        ("so <unk> so", "so <unk> unk <unk> so"),
        ("<eos>", "<unk> eos <unk>"),
        ("", ""),
    ],
)
def test_texts_that_are_not_restored_exactly(text: str, expected: str) -> None:
    tokenizer = train_words(["so go, unk eos so go so"], 20)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == expected
    assert tokenizer.eos not in ids


def test_the_most_frequent_words_are_known() -> None:
    tokenizer = train_words(["b a c b a b", "a b d"], 5)
    assert tokenizer.names == ["<eos>", "<unk>", "b", "a", "c"]  # c before d, which is as frequent
    assert tokenizer.encode("a d c") == [3, 1, 4]
    assert train_words(["b a"], 5000).vocab == 4
    assert tokenizer.json == train_words(["a b d", "b a c b a b"], 5).json
    for size in (2, 2**24 + 1):
        with pytest.raises(ValueError, match="vocab must be at least 3"):
            train_words(["a"], size)


def test_it_streams_what_it_decodes(words: Tokenizer) -> None:
    draw = random.Random(1)
    for _ in range(200):
        before, ids = ([draw.randrange(1, words.vocab) for _ in range(draw.randrange(1, 9))] for _ in range(2))
        stream = words.stream(before)
        assert words.decode(before) + "".join([*map(stream.push, ids), stream.finish()]) == words.decode(before + ids)


def test_pieces_encode_as_the_whole(words: Tokenizer) -> None:
    assert words.seams is not None
    draw = random.Random(2)
    parts = [*'",._(', " ", " ", "  ", "\n", "\t", "go", "said", "END", "3"]
    text = "".join(draw.choice(parts) for _ in range(4000))
    cut = list(pieces(text, words.seams, size=20))
    assert len(cut) > 40
    assert list(itertools.chain(*words.encode_many(cut))) == words.encode(text)


def test_the_package_reads_it(words: Tokenizer, tmp_path: Path) -> None:
    words.save(tmp_path / "tokenizer.json")
    inner = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    encoded = inner.encode("Don't go.", add_special_tokens=False)
    assert encoded.ids == words.encode("Don't go.") == Tokenizer.load(tmp_path / "tokenizer.json").encode("Don't go.")
    assert inner.decode(encoded.ids) == "Don't go."


@pytest.mark.slow
def test_a_corpus_is_cached_hashed_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book.txt").write_text("the cat sat on the mat, and the dog did not. " * 50 + "a zebra came by")
    book, cache = tmp_path / "book.txt", tmp_path / "cache"
    corpus = prepare(book, vocab=300, unit="words", context=8, cache=cache)
    assert "zebra" not in corpus.tokenizer.names
    assert corpus.train.unknown == 1
    assert corpus.train.lost_tokens == 0
    assert corpus.held_out.lost_tokens == 4
    (made,) = (cache / "corpora").iterdir()
    (made / "tokenizer.json").write_text("{}")
    again = prepare(book, vocab=300, unit="words", context=8, cache=cache)
    assert "damaged; training the tokenizer again" in capsys.readouterr().err
    assert (again.identity, again.tokenizer.json) == (corpus.identity, corpus.tokenizer.json)
    assert np.array_equal(again.train.ids, corpus.train.ids)
    others = [prepare(book, vocab=300, context=8, cache=cache), prepare(book, vocab=5, unit="words", context=8)]
    assert len({corpus.identity, *(other.identity for other in others)}) == 3


def test_unknown_words_have_no_bits(words: Tokenizer) -> None:
    settings = {"vocab": words.vocab, "dim": 8, "depth": 1, "context": 8, "ffn": 8, "mixer": {"kind": "she"}}
    model = model_config(settings).build()
    known, lossy = (encode_documents([Document("it", text)], words) for text in ("go, said", "go, wrote"))
    scored = score(model, known)
    assert scored.unknown == 0
    assert scored.bits_per_byte == pytest.approx(scored.loss * len(known) / math.log(2) / len("go, said"))
    scored = score(model, lossy)
    assert scored.bits_per_byte is None
    assert scored.unknown == 1 / len(lossy)
    assert scored.row() | {"held_out": 0, "by_position": 0} == {
        "held_out": 0, "bits_per_byte": None, "tokens": len(lossy), "by_position": 0, "unknown": 1 / len(lossy)
    }  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    (folder / "book.txt").write_text("the cat sat on the mat, and the dog did not. " * 50 + "a zebra came by")
    (folder / "labels.tsv").write_text("\n".join(f"{'ab'[n % 2]}\tthe cat {n}" for n in range(40)))
    (folder / "pairs.tsv").write_text("\n".join(f"the cat {n}\tcat {n}" for n in range(40)))
    sets = [part for change in (*TINY, "data.tokenizer=words") for part in ("--set", change)]
    train = ["train", "paper/small", *sets, "--data", str(folder / "book.txt"), "--out", str(folder / "run")]
    assert command(train) == 0
    return folder / "run"


@pytest.mark.slow
def test_the_commands_report_unknown_words(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run.parent / "new.txt").write_text("the cat and the panther")
    for data, unknown in (("book.txt", 4 / 655), ("new.txt", 1 / 6)):
        assert command(["evaluate", str(run), "--data", str(run.parent / data), "--json"]) == 0
        row = json.loads(capsys.readouterr().out)
        assert row["bits_per_byte"] is None
        assert row["unknown"] == pytest.approx(unknown)
    assert command(["evaluate", str(run), "--data", str(run.parent / "new.txt")]) == 0
    printed = capsys.readouterr().out
    assert "none: unknown words are lost" in printed
    assert "16.67%" in printed
    assert command(["generate", str(run), "the cat", "--max-tokens", "5"]) == 0
    capsys.readouterr()
    assert command(["data", str(run.parent / "book.txt"), "--tokenizer", "words", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["unknown"] == pytest.approx(4 / values["tokens"])
    assert values["vocabulary"] < 20


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["words", "characters"])
@pytest.mark.parametrize(("preset", "data"), [("classifier/small", "labels.tsv"), ("seq2seq/dates", "pairs.tsv")])
def test_labels_and_pairs_have_units_too(run: Path, preset: str, data: str, unit: str) -> None:
    sets = [f"data.tokenizer={unit}", "training.schedule.kind=constant", *TINY[-3:]]
    out = run.parent / f"{unit}-{data}"
    changes = [part for change in sets for part in ("--set", change)]
    assert command(["train", preset, *changes, "--data", str(run.parent / data), "--out", str(out)]) == 0
    tokenizer = Tokenizer.load(out / "tokenizer.json")
    assert (tokenizer.unknown is None) == (unit == "characters")
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"
    assert len(tokenizer.encode("the cat")) == (2 if unit == "words" else 7)


@pytest.mark.slow
def test_an_arpa_file_of_words(run: Path) -> None:
    sets = [part for change in ("data.tokenizer=words", "model.order=2") for part in ("--set", change)]
    out, file = run.parent / "counts", run.parent / "words.arpa"
    book = str(run.parent / "book.txt")
    assert command(["train", "ngram/kneser_ney", *sets, "--data", book, "--out", str(out)]) == 0
    assert command(["export", "arpa", str(out), "--out", str(file)]) == 0
    lines = file.read_text().splitlines()
    unigrams = lines[lines.index("\\1-grams:") + 1 : lines.index("\\2-grams:") - 1]
    names = [line.split("\t")[1] for line in unigrams]
    assert sorted(names) == sorted({*names, "<unk>", "</s>", "<s>", "<eos>", ",▁", ".▁", "cat"})
    assert lines[1] == f"ngram 1={len(names)}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.tokenizer=words", "data.vocab=null"], "vocab is needed with data.tokenizer=words"),
        (["data.tokenizer=words", "data.source=markov:3:1:0"], "the letters of the chain are its tokens"),
        (["data.tokenizer=word"], "there is no tokenizer there: give a tokenizer.json"),
    ],
)
def test_errors_of_words_in_one_line(
    tmp_path: Path, changes: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [part for change in (*TINY, *changes) for part in ("--set", change)]
    assert command(["train", "paper/small", *sets, "--out", str(tmp_path / "none")]) == 2
    printed = capsys.readouterr().err.strip().splitlines()
    assert message in printed[-1]
    assert len([line for line in printed if line.startswith("seqloom:")]) == 1


@pytest.mark.slow
def test_the_held_out_words_of_a_run_are_found_again(run: Path) -> None:
    tokens, text = eval_text(find_run(run), load(run), None)
    assert tokens is not None, text
    assert tokens.lost_tokens == 4
