"""Pieces of texts without spaces between words: small, and with the ids of the whole."""

import itertools
import random
from collections.abc import Callable

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from seqloom.data.pieces import SIZE, groups, pieces
from seqloom.data.seams import BYTE_LEVEL_SEAMS, WORD_SEAMS, Seams
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.words import train_words

SIGNS = [
    *"ab Z19'’.,!?;:-_()\n\t\r\x0b\x1c\u3000\xa0",
    "'s",
    "'LL",
    "  ",
    " \n",
    "\r\n",
    "é",
    "e\u0301",
    "ǅ",
    "ß",
    "½",
    "٣",
]
SIGNS += [
    *"中文字。，「」かなカナがハン글русский",
    "か\u3099",
    "\u1112\u1161\u11ab",
    "ไทยำ",
    "\u200d",
    "🐈",
    "▁",
    "\u2028",
    "ﷺ",
    "\u0301",
]
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def drawn(seed: int, count: int) -> str:
    """A text of all signs, in which runs of a few of them are long."""
    draw = random.Random(seed)
    runs = (
        "".join(draw.choices(draw.sample(SIGNS, draw.randrange(1, 6)), k=draw.randrange(1, 30))) for _ in range(count)
    )
    return "".join(runs)


def trained(trainer: trainers.Trainer, model: models.Model, normalizer=None, pre_tokenizer=None) -> Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizer
    inner.pre_tokenizer = pre_tokenizer
    inner.train_from_iterator([drawn(seed, 40) for seed in range(30)], trainer)
    return Tokenizer(inner, "</s>")


def byte_pairs(normalizer=None, pattern: str = LLAMA) -> Tokenizer:
    splits = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    steps = pre_tokenizers.Sequence([splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["</s>"],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    return trained(trainer, models.BPE(), normalizer, steps)


def word_pieces(normalizer=None) -> Tokenizer:
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]", "</s>"], show_progress=False)
    return trained(trainer, models.WordPiece(unk_token="[UNK]"), normalizer, pre_tokenizers.BertPreTokenizer())


MADE: dict[str, Callable[[], Tokenizer]] = {
    "own": lambda: Tokenizer.train([drawn(seed, 40) for seed in range(30)], 700),
    "words": lambda: train_words([drawn(seed, 40) for seed in range(30)], 300),
    "llama": byte_pairs,
    "qwen": lambda: byte_pairs(normalizers.NFC(), LLAMA.replace("{1,3}", "")),
    "folded": lambda: byte_pairs(normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])),
    "bert": lambda: word_pieces(normalizers.BertNormalizer()),
    "whitespace": word_pieces,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_ids_of_pieces_are_those_of_the_text(name: str) -> None:
    tokenizer = MADE[name]()
    assert tokenizer.seams is not None
    draw = random.Random(0)
    cuts = 0
    for seed in range(100, 250):
        text = drawn(seed, draw.randrange(1, 30))
        parts = list(pieces(text, tokenizer.seams, draw.randrange(4, 60)))
        assert "".join(parts) == text
        assert list(itertools.chain(*tokenizer.encode_many(parts))) == tokenizer.encode(text), parts
        cuts += len(parts) - 1
    assert cuts > 10


def words_of(letters: str, count: int, joint: str) -> str:
    draw = random.Random(0)
    return joint.join("".join(draw.choices(letters, k=draw.randrange(1, 12))) for _ in range(count))


TEXTS = {
    "russian": words_of("абвгде", 25000, " "),
    "chinese": words_of("中文字典漢語", 25000, "，"),
    "japanese": words_of("かなカナ漢字", 25000, "\n"),
    "numbers": words_of("0123456789", 25000, ","),
    "tabs": words_of("abcdef", 25000, "\t"),
    "lines": words_of("-=", 25000, "\n"),
    "base64": words_of("abcdefABCDEF0123456789+/", 25000, ""),
    "code": words_of("abc", 25000, "_"),
}


@pytest.mark.slow
@pytest.mark.parametrize("seams", [BYTE_LEVEL_SEAMS, WORD_SEAMS], ids=["own", "words"])
@pytest.mark.parametrize("name", TEXTS)
def test_no_piece_is_larger_than_the_size(name: str, seams: Seams) -> None:
    text = TEXTS[name]
    if seams is WORD_SEAMS and name in ("tabs", "base64"):
        return  # a blank may belong to a sign; letters and digits are one word
    parts = list(pieces(text, seams))
    assert len(parts) > 2
    assert max(len(part.encode()) for part in parts) <= SIZE
    assert min(len(part.encode()) for part in parts[:-1]) > SIZE / 2, "nor much smaller"


def test_a_longer_word_is_one_piece() -> None:
    word = "x" * 3 * SIZE
    parts = list(pieces(f"one two, {word}, three", BYTE_LEVEL_SEAMS))
    assert [len(part) for part in parts] == [len("one"), len(" two,"), len(f" {word}, three")]
    assert [row for group in groups([word], None) for row in group] == [(0, True, word)]
