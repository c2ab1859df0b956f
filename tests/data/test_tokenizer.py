"""Byte-level pair encoding: nothing is lost, `<eos>` is never text, pieces and streams agree with the whole."""

import itertools
import json
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.pieces import groups, pieces
from seqloom.data.seams import BYTE_LEVEL_SEAMS
from seqloom.data.tokenizer import SMALLEST, Tokenizer

TEXT = "Once upon a time there was a little girl, and she didn't like the “dark” — 12 cats… déjà vu 漢字 🐈\u200d⬛"
WORDS = TEXT.split()
CHARACTERS = Tokenizer.train_characters([TEXT])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    draw = random.Random(0)
    return Tokenizer.train((" ".join(draw.choices(WORDS, k=50)) for _ in range(50)), 400)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        "<eos>",
        "a<eos>b <eos>",
        "\x00\x01\x7f",
        "\r\n\t",
        "ÿ\u2028\ufeff",
        "🐈‍⬛",
        "  two  blanks  ",
        "Ġ Ċ",
    ],
)
def test_named_texts_survive(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.eos not in ids


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_survives(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_eos_in_the_training_text_is_no_token_either() -> None:
    tokenizer = Tokenizer.train(["<eos> <eos> <eos>" * 50], 300)
    assert 0 not in tokenizer.encode("<eos> <eos>")
    assert tokenizer.decode([0, *tokenizer.encode("<eos>"), 0]) == "<eos>"


def test_a_saved_tokenizer_is_the_same_one(tokenizer: Tokenizer, tmp_path) -> None:
    tokenizer.save(tmp_path / "run" / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "run" / "tokenizer.json")
    text = "Once upon a <eos> time"
    assert (loaded.vocab, loaded.eos, loaded.json) == (tokenizer.vocab, 0, tokenizer.json)
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode(text)) == text


def test_training_is_deterministic_and_small_texts_give_small_vocabularies() -> None:
    texts = [" ".join(WORDS) * 3]
    assert Tokenizer.train(texts, 320).json == Tokenizer.train(texts, 320).json
    assert Tokenizer.train(["ab"], 5000).vocab == SMALLEST
    with pytest.raises(ValueError, match="at least 257"):
        Tokenizer.train(texts, 256)


def test_half_a_surrogate_pair_is_an_error(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="not UTF-8: its character 2 is half a surrogate pair; write it in UTF-8"):
        tokenizer.encode("a\ud800")
    argument = os.fsdecode(b"caf\xe9")  # a prompt in Latin-1, as the command line gives it
    with pytest.raises(ValueError, match="its character 4 is half a surrogate pair, the byte 0xe9; write") as caught:
        tokenizer.encode(argument)
    assert str(caught.value).isascii()


@pytest.mark.parametrize("id", [-1, 400, 10**9])
def test_ids_outside_are_errors(tokenizer: Tokenizer, id: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        tokenizer.decode([id])


def test_stream_gives_whole_characters_and_the_same_text(tokenizer: Tokenizer) -> None:
    draw = random.Random(1)
    for _ in range(200):
        ids = [draw.randrange(tokenizer.vocab) for _ in range(draw.randrange(12))]
        stream = tokenizer.stream()
        assert "".join([*map(stream.push, ids), stream.finish()]) == tokenizer.decode(ids)
    stream = Tokenizer.train([""], SMALLEST).stream()
    raw = Tokenizer.train([""], SMALLEST).encode("é🐈")
    assert [stream.push(id) for id in raw] == ["", "é", "", "", "", "🐈"]
    assert (stream.push(raw[0]), stream.finish(), stream.finish()) == ("", "\ufffd", "")


def test_pieces_encode_as_the_whole() -> None:
    draw = random.Random(2)
    seams = [" ", "  ", "\n", " \n", "\n ", "\n  ", "\n\n   ", "'s ", " '", "\t "]
    text = "".join(draw.choice(WORDS) + draw.choice(seams) for _ in range(3000))
    tokenizer = Tokenizer.train([text], 600)  # with merges over runs of blanks
    assert tokenizer.seams is not None
    cut = list(pieces(text, tokenizer.seams, size=20))
    assert len(cut) > 100
    assert "".join(cut) == text
    assert list(itertools.chain(*tokenizer.encode_many(cut))) == tokenizer.encode(text)


def test_groups_mark_the_last_piece_of_each_text() -> None:
    texts = ["", "a b " * 20000, "c"]
    result = [row for group in groups(texts, BYTE_LEVEL_SEAMS, size=1 << 15) for row in group]
    assert ["".join(piece for number, _, piece in result if number == k) for k in range(3)] == texts
    assert [number for number, last, _ in result if last] == [0, 1, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a readable"),
        ("{}", "not a readable"),
        ('{"model": 3', "not a readable"),
        ("\xff", "not UTF-8 text"),
        ("[" * 200_000, "not a readable"),
    ],
    ids=("empty", "other", "cut", "latin", "deep"),
)
def test_broken_files_are_named(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=message) as caught:
        Tokenizer.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("old", "new", "message"), [("<eos>", "<end>", "eos"), ("Ā", "Āz9", "byte-level")])
def test_other_tokenizers_are_errors(tmp_path, old: str, new: str, message: str) -> None:
    form = json.loads(Tokenizer.train([""], SMALLEST).json)
    for token in form["added_tokens"]:
        token["content"] = token["content"].replace(old, new)
    form["model"]["vocab"] = {(new if name == old else name): id for name, id in form["model"]["vocab"].items()}
    (tmp_path / "tokenizer.json").write_text(json.dumps(form), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_a_missing_file_is_an_error_that_names_it(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no tokenizer there"):
        Tokenizer.load(tmp_path / "none.json")


def test_a_token_is_a_character() -> None:
    tokenizer = Tokenizer.train_characters([TEXT])
    wide = {character for character in TEXT if not character.isascii()}
    ids = tokenizer.encode(TEXT)
    assert len(ids) == len(TEXT)
    assert [tokenizer.decode([id]) for id in ids] == list(TEXT)
    assert tokenizer.vocab >= SMALLEST + len(wide)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_characters_of_other_texts_lose_nothing(text: str) -> None:
    assert CHARACTERS.decode(CHARACTERS.encode(text)) == text
    assert CHARACTERS.eos not in CHARACTERS.encode(text)


def test_rare_characters_are_bytes_where_there_is_no_room() -> None:
    tokenizer = Tokenizer.train_characters(["ééé漢"], 258)
    assert tokenizer.vocab == 258
    assert [len(tokenizer.encode(character)) for character in "aé漢"] == [1, 1, 3]
    with pytest.raises(ValueError, match="at least 257"):
        Tokenizer.train_characters(["a"], 100)
