r"""A tokenizer of words: its tokens are the most frequent words of a text, and one token for all other words.

    word    letters and digits, with apostrophes inside                     don't
    sign    any other character, with the space before and after it         ", "  " ("  "-"
    break   the line feeds between lines                                    "\n\n"

    ids:    <eos> = 0,  <unk> = 1,  then words by falling frequency, ties in the order of their characters
    text:   the tokens, concatenated, with a space between two words

So a word is the same token wherever it occurs, and decoding restores a text except for `<unk>` and repeated spaces (a
tab counts as a space). Since `<unk>` says nothing about the word that it replaces, a text with unknown words has no
bits per byte (`seqloom.evaluation.scores`).

Source: vocabularies cut off by frequency with one unknown word, as in Mikolov et al., Recurrent neural network based
language model, Interspeech 2010. What differs: case and digits are kept, and signs include the spaces around them.
"""

import functools
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from seqloom.data.seams import BLANKS, LETTER, WORDS
from seqloom.data.tokenizer import MOST, Tokenizer

UNKNOWN = "<unk>"
_END = "<eos>"
_JOINT = "\x1f"
"""a mark at both ends of a word, by which decoding finds where to put a space"""


def train_words(texts: Iterable[str], vocab: int) -> Tokenizer:
    """A tokenizer of the most frequent words of `texts`, with `vocab` entries at most.

    ValueError for an invalid size.
    """
    require_words(vocab)
    counting = _word_level({UNKNOWN: 0})
    trainer = trainers.WordLevelTrainer(vocab_size=vocab - 2, special_tokens=[], show_progress=False)
    counting.train_from_iterator(texts, trainer)
    vocabulary = counting.get_vocab()
    ids = {name: id for id, name in enumerate([_END, UNKNOWN, *sorted(vocabulary, key=vocabulary.__getitem__)])}
    inner = _word_level(ids)
    # both ends of a word get a mark: two marks in a row become a space, a single one nothing
    inner.decoder = decoders.Sequence(
        [
            decoders.Replace(tokenizers.Regex(rf"^(?={LETTER}|{UNKNOWN}$)|(?<={LETTER})$|(?<=^{UNKNOWN})$"), _JOINT),
            decoders.Fuse(),
            decoders.Replace(_JOINT * 2, " "),
            decoders.Replace(_JOINT, ""),
        ]
    )
    inner.add_special_tokens([_END])
    return Tokenizer(inner)


def split(text: str) -> list[str]:
    """The words, signs and breaks of a text, whether a vocabulary has them or not."""
    inner = _splitter()
    assert inner.normalizer is not None
    assert inner.pre_tokenizer is not None
    return [token for token, _ in inner.pre_tokenizer.pre_tokenize_str(inner.normalizer.normalize_str(text))]


def require_words(vocab: int) -> None:
    """Raises ValueError unless a vocabulary of words can have `vocab` entries."""
    if not 3 <= vocab <= MOST:
        raise ValueError(f"vocab must be at least 3 (<eos>, {UNKNOWN} and a word) and at most {MOST:,}, and is {vocab}")


@functools.cache
def _splitter() -> tokenizers.Tokenizer:
    return _word_level({UNKNOWN: 0})


def _word_level(ids: dict[str, int]) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel(ids, UNKNOWN))
    inner.normalizer = normalizers.Replace(tokenizers.Regex(BLANKS), " ")
    inner.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(WORDS), "removed", invert=True)
    return inner
