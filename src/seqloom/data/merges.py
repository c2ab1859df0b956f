r"""Learns the merges of a byte-level tokenizer from texts.

    texts → words by the pattern of GPT-2, long ones in parts → counts of equal words → merges (package `tokenizers`)

A word is a run of letters, digits, signs or blanks, so that a megabyte of DNA or of dashes is one word. To merge a pair
within a word takes time proportional to its length, and all merges the square of it. So a word of more than `LONGEST`
characters is counted as parts of that many; the merges of a text without such words are not changed by that.

This file is also a program, which `merge_process` runs: it reads lines of JSON, the size of the vocabulary and then a
text per line, and writes tokenizer.json, and lines of JSON about its progress to standard error. It imports nothing of
seqloom, so that it starts at once.
"""

import json
import sys
from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

EOS = "<eos>"
LONGEST = 1000
"""characters of the longest word that is counted as a whole"""
WORD = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""matches a word: the pattern of GPT-2, which the pre-tokenizer `ByteLevel` has"""


def byte_level(model: models.Model) -> tokenizers.Tokenizer:
    """A tokenizer of bytes, which cuts a text into the words of GPT-2's pattern."""
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def learned_merges(texts: Iterable[str], vocab: int, *, tells: bool = False) -> tokenizers.Tokenizer:
    """A tokenizer of `vocab` entries, or fewer where no pair occurs twice; with `tells`, progress to standard error."""
    inner = byte_level(models.BPE())
    word_pattern = inner.pre_tokenizer
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(WORD), "isolated"),
            pre_tokenizers.FixedLength(LONGEST),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        min_frequency=2,
        special_tokens=[EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=tells,
        progress_format="json" if tells else "silent",
    )
    inner.train_from_iterator(texts, trainer)
    inner.pre_tokenizer = word_pattern
    return inner


if __name__ == "__main__":
    lines = (json.loads(line) for line in sys.stdin.buffer)
    sys.stdout.buffer.write(learned_merges(lines, next(lines), tells=True).to_str().encode())
