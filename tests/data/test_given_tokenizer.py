"""Tokenizers of the user: the end token, streaming of text from ids, and the copy in the run."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from seqloom.data.documents import Document
from seqloom.data.given_tokenizer import given_tokenizer
from seqloom.data.packing import PackedRows
from seqloom.data.pieces import pieces
from seqloom.data.prepare import encode_documents, prepare
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.windows import held_out

TEXTS = ["the little girl went into a dark wood, and there she saw an old house of bread"] * 20
PLAIN = "the little girl saw an old house of bread"


def bpe() -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    inner.add_special_tokens(["<|endoftext|>"])  # the last id
    return inner


def wordpiece() -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    inner.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    )
    inner.post_processor = processors.TemplateProcessing(
        single=["[CLS]", "$A", "[SEP]"], special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    inner.enable_truncation(4)
    return inner


def unigram() -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.Unigram())
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
    )
    inner.train_from_iterator(TEXTS, trainer)
    return inner


def fallback() -> tokenizers.Tokenizer:
    """As of Llama 2: characters, bytes for all others, the blank at the start stripped."""
    names = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *sorted(set(PLAIN) - {" "})]
    model = models.BPE({name: id for id, name in enumerate(names)}, [], byte_fallback=True, unk_token="<unk>")
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    inner.add_special_tokens(["<unk>", "</s>"])
    return inner


MADE: dict[str, tuple[Callable[[], tokenizers.Tokenizer], str]] = {
    "bpe": (bpe, "<|endoftext|>"),
    "wordpiece": (wordpiece, "[SEP]"),
    "unigram": (unigram, "</s>"),
    "fallback": (fallback, "</s>"),
}


def llama3() -> tokenizers.Tokenizer:
    """Words by the pattern of Llama 3, bytes and merges in them, composed characters as of Qwen 2."""
    inner = bpe()
    words = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    inner.normalizer = normalizers.NFC()
    inner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(words), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    inner.add_tokens(["<tool>"])
    return inner


def bert() -> tokenizers.Tokenizer:
    inner = wordpiece()
    inner.normalizer = normalizers.BertNormalizer()
    return inner


DIVIDED = {**{name: make for name, (make, _) in MADE.items()}, "llama3": llama3, "bert": bert}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_text_in_pieces_has_the_same_ids(name: str) -> None:
    tokenizer = Tokenizer(DIVIDED[name]())
    assert tokenizer.seams is not None
    draw = random.Random(1)
    signs = [
        *"the girl saw THE Girl 12 345 it's ..!",
        " ",
        " ",
        "  ",
        "\n",
        "\t",
        "é",
        "e\u0301",
        "中",
        "▁",
        "<tool>",
        "\xa0",
    ]
    for _ in range(60):
        text = "".join(draw.choices(signs, k=draw.randrange(1, 400)))
        parts = list(pieces(text, tokenizer.seams, draw.randrange(1, 30)))
        assert [id for part in parts for id in tokenizer.encode(part)] == tokenizer.encode(text), parts


def whole() -> dict[str, tokenizers.Tokenizer]:
    """Tokenizers whose ids depend on text further away, or whose rules are unknown."""
    result = {name: bpe() for name in ("prefix", "blank", "replaced", "unread")}
    result["prefix"].pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    result["blank"].add_tokens(["girl saw"])
    result["replaced"].normalizer = normalizers.Replace("a ", "b")
    result["unread"].pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex("a|b"), "isolated")
    result["across"] = fallback()
    form = json.loads(result["across"].to_str())
    form["model"]["vocab"]["e▁t"] = len(form["model"]["vocab"])
    result["across"] = tokenizers.Tokenizer.from_str(json.dumps(form))
    return result


@pytest.mark.parametrize("name", whole())
def test_what_could_lie_across_a_seam_is_read_at_once(name: str) -> None:
    assert Tokenizer(whole()[name]).seams is None


@pytest.fixture(params=MADE)
def given(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A tokenizer.json and the name of its end token."""
    make, end = MADE[request.param]
    make().save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json", end


def test_the_end_token_is_found_and_is_never_text(given: tuple[Path, str]) -> None:
    path, end = given
    tokenizer = given_tokenizer(path)
    assert tokenizer.eos == tokenizers.Tokenizer.from_file(str(path)).token_to_id(end)
    ids = tokenizer.encode(f"the {end} girl {end}")
    assert tokenizer.eos not in ids
    assert tokenizer.decode([*tokenizer.encode(PLAIN), tokenizer.eos]) == PLAIN


def test_a_text_streams_out_of_ids_as_it_decodes_at_once(given: tuple[Path, str]) -> None:
    tokenizer = given_tokenizer(given[0])
    draw = random.Random(0)
    stream = tokenizer.stream()
    for _ in range(300):
        ids = [draw.randrange(tokenizer.vocab) for _ in range(draw.randrange(12))]
        assert "".join([*map(stream.push, ids), stream.finish()]) == tokenizer.decode(ids), ids
    assert "".join([*map(stream.push, tokenizer.encode(PLAIN)), stream.finish()]) == PLAIN


def test_a_continuation_streams_with_the_blank_before_it(given: tuple[Path, str]) -> None:
    tokenizer = given_tokenizer(given[0])
    prompt, rest = (
        tokenizer.encode("the little girl"),
        tokenizer.encode(PLAIN)[len(tokenizer.encode("the little girl")) :],
    )
    stream = tokenizer.stream(prompt)
    assert "".join([*map(stream.push, rest), stream.finish()]) == PLAIN.removeprefix("the little girl")


def test_the_stored_tokenizer_is_the_same(given: tuple[Path, str], tmp_path: Path) -> None:
    tokenizer = given_tokenizer(given[0])
    tokenizer.save(tmp_path / "run" / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "run" / "tokenizer.json")
    assert (loaded.json, loaded.eos, loaded.vocab) == (tokenizer.json, tokenizer.eos, tokenizer.vocab)
    assert loaded.encode(PLAIN) == tokenizer.encode(PLAIN)


def test_documents_end_in_the_end_token_wherever_it_is_read(given: tuple[Path, str]) -> None:
    tokenizer = given_tokenizer(given[0])
    documents = [Document(str(n), f"{PLAIN} " * n) for n in (1, 3, 2)]
    tokens = encode_documents(documents, tokenizer)
    assert (tokens.ids == tokenizer.eos).sum() == 3
    assert tokens.ids[tokens.ends - 1].tolist() == [tokenizer.eos] * 3
    assert tokens.sizes.tolist() == [len(document.text.encode()) for document in documents]
    inputs, targets, keep = next(held_out(tokens, 8, 100))
    assert int(keep.sum()) == len(tokens)
    assert set(targets[~keep].tolist()) <= {tokenizer.eos}
    assert int(inputs[0, 0]) == tokenizer.eos
    ids, document = PackedRows(tokens, 200, 0).batch(0, 1)
    assert set(ids[document < 0].tolist()) <= {tokenizer.eos}


def test_bytes() -> None:
    tokenizer = given_tokenizer("bytes")
    assert (tokenizer.vocab, tokenizer.eos) == (257, 0)
    assert tokenizer.encode("aé \0") == [byte + 1 for byte in "aé \0".encode()]
    assert tokenizer.decode([0, *tokenizer.encode("aé <eos>"), 0]) == "aé <eos>"


@pytest.mark.parametrize("end", ["<end>", {"content": "<end>", "lstrip": False}])
def test_a_folder_names_its_end_token(tmp_path: Path, end: object) -> None:
    inner = bpe()
    inner.add_special_tokens(["<end>"])
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
    tokenizer = given_tokenizer(tmp_path)
    assert tokenizer.eos == tokenizer.vocab - 1
    tokenizer.save(tmp_path / "kept.json")  # which stands alone
    assert Tokenizer.load(tmp_path / "kept.json").eos == tokenizer.eos
    assert Tokenizer.load(tmp_path / "kept.json").json == tokenizer.json


def test_a_corpus_of_a_given_tokenizer(given: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(f"{PLAIN}. " * 100)
    sides = {"context": 8, "cache": tmp_path / "cache"}
    corpus = prepare(tmp_path / "book.txt", tokenizer=given_tokenizer(given[0]), **sides)
    assert corpus.train.ids[-1] == corpus.tokenizer.eos
    corpus.tokenizer.save(tmp_path / "run.json")  # as a run keeps it
    again = prepare(tmp_path / "book.txt", tokenizer=Tokenizer.load(tmp_path / "run.json"), **sides)
    assert again.identity == corpus.identity
    np.testing.assert_array_equal(again.train.ids, corpus.train.ids)
    assert prepare(tmp_path / "book.txt", tokenizer=given_tokenizer("bytes"), **sides).identity != corpus.identity


def endless(path: Path) -> None:
    inner = unigram()
    form = json.loads(inner.to_str().replace("</s>", "<stop>"))
    path.write_text(json.dumps(form))


@pytest.mark.parametrize(
    ("name", "vocab", "message"),
    [
        ("nothing", None, "nothing: there is no tokenizer there: give a tokenizer.json"),
        ("empty", None, "no tokenizer.json in this folder"),
        ("broken.json", None, "not a readable tokenizer"),
        ("endless.json", None, "it has no end token"),
        ("other", None, "end token '<other>' is not in its vocabulary"),
        ("number", None, "eos_token is 3"),
        ("whole.json", 60, "entries, more than data.vocab=60: leave data.vocab out, or set"),
        ("fifo", None, "is a FIFO"),
    ],
)
def test_bad_tokenizers_are_one_line(tmp_path: Path, name: str, vocab: int | None, message: str) -> None:
    import os

    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{")
    endless(tmp_path / "endless.json")
    wordpiece().save(str(tmp_path / "whole.json"))
    for folder, end in (("other", "<other>"), ("number", 3)):
        (tmp_path / folder).mkdir()
        wordpiece().save(str(tmp_path / folder / "tokenizer.json"))
        (tmp_path / folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        given_tokenizer(tmp_path / name, vocab)
    assert "\n" not in str(caught.value)


def test_a_corpus_of_characters(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("déjà vu. " * 100)
    settings = {"context": 8, "cache": tmp_path / "cache", "unit": "characters"}
    corpus = prepare(tmp_path / "book.txt", **settings)
    text = corpus.tokenizer.decode(corpus.train.ids.tolist())
    assert len(text) + corpus.train.documents == len(corpus.train)
    assert int(corpus.train.sizes.sum()) == len(text.encode())
    assert prepare(tmp_path / "book.txt", **settings).identity == corpus.identity
    assert prepare(tmp_path / "book.txt", vocab=257, **settings).identity != corpus.identity
