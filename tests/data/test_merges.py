"""Merges: as the package learns them, but of long words in parts, and in a process that can be stopped."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from seqloom.core.progress import Advance
from seqloom.data import merge_process, merges
from seqloom.data.corpora import read
from seqloom.data.pieces import pieces
from seqloom.data.seams import BYTE_LEVEL_SEAMS
from seqloom.data.tokenizer import Tokenizer


def of_whole_words(texts: list[str], vocab: int) -> Tokenizer:
    """The tokenizer that the package trains by itself."""
    inner = merges.byte_level(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, min_frequency=2, special_tokens=["<eos>"], initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(texts, trainer)
    return Tokenizer(inner)


def generated_texts() -> list[str]:
    """Texts of all kinds of words, of at most 1,000 characters."""
    draw = random.Random(0)
    parts = [
        "once",
        " upon",
        " déjà",
        "n't",
        "'s",
        "'LL",
        " 12",
        "3½",
        "٣",
        "--",
        " …!",
        "  ",
        " \n",
        "\t\t ",
        "\u2028",
    ]
    parts += [" 漢字", "ру́сский", "ไทย", "🐈\u200d⬛", "<eos>", "_x_", "\u0301"]
    words = [draw.choice(parts) + draw.choice(parts) for _ in range(200)]
    words += ["x" * 999, "字" * 999, "-" * 999, "9" * 999, "\n" * 900]
    return [" ".join(draw.choices(words, k=60)) for _ in range(60)]


def longest_word(text: str) -> int:
    words = pre_tokenizers.Split(tokenizers.Regex(merges.WORD), "isolated").pre_tokenize_str(text)
    return max(len(word) for word, _ in words)


@pytest.mark.slow
def test_merges_of_texts_without_long_words_are_those_of_the_package() -> None:
    texts = generated_texts()
    assert max(map(longest_word, texts)) == merges.LONGEST
    assert Tokenizer.train(texts, 500).json == of_whole_words(texts, 500).json


WORDS = {
    "letters": "a" * 999 + "yz" + "b" * 999,
    "digits": "1" * 999 + "78" + "2" * 999,
    "signs": "-" * 999 + "?!" + "+" * 999,
    "blanks": "\n" * 999 + "\t\v" + "\f" * 999 + ".",
    "wide": "中" * 999 + "国家" + "人" * 999,
}


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_a_long_word_is_counted_in_parts(word: str) -> None:
    """The pair in the middle of the word, which occurs in three of them, is between two parts."""
    tokenizer = Tokenizer.train([word] * 3, 400)
    middle = len(tokenizer.encode(word[999:1001]))
    assert middle == len(tokenizer.encode(word[999])) + len(tokenizer.encode(word[1000]))
    assert len(Tokenizer.train([word[1:]] * 3, 400).encode(word[999:1001])) < middle, "here it is within a part"
    assert tokenizer.decode(tokenizer.encode(word)) == word


@pytest.mark.slow
def test_a_process_learns_the_same_merges_and_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = generated_texts()
    here = Tokenizer.train(iter(texts), 400).json
    monkeypatch.setattr(merge_process, "SMALL", 100)
    monkeypatch.chdir(Path(merges.__file__).parent)  # where the modules tokens.py and cache.py are
    seen: list[tuple[str, float, float]] = []

    @contextmanager
    def show(label: str, total: float, unit: str) -> Iterator[Advance]:
        yield lambda amount=1, note="": seen.append((label, total, amount))

    assert Tokenizer.train(iter(texts), 400, show=show).json == here
    assert {(label, total) for label, total, _ in seen} == {("merges of the tokenizer", 400)}
    assert 400 - 257 - 1 <= sum(amount for *_, amount in seen) <= 400


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that learn merges, of any text."""
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments, **settings):
        started.append(popen(*arguments, **settings))
        return started[-1]

    monkeypatch.setattr(merge_process, "SMALL", 100)
    monkeypatch.setattr(merge_process.subprocess, "Popen", start)
    return started


@pytest.mark.slow
def test_an_interrupt_while_texts_are_read_ends_the_process(processes: list[subprocess.Popen[bytes]]) -> None:
    def texts() -> Iterator[str]:
        yield "a text " * 100
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tokenizer.train(texts(), 400)
    assert processes[0].returncode == -signal.SIGKILL


INTERRUPTED = """
import os, random, signal, subprocess, sys, threading
from contextlib import contextmanager
from seqloom.data import merge_process
from seqloom.data.tokenizer import Tokenizer

signal.signal(signal.SIGINT, signal.default_int_handler)
merge_process.SMALL, popen, started = 100, subprocess.Popen, []

def start(*arguments, **settings):
    started.append(popen(*arguments, **settings))
    return started[-1]

@contextmanager
def show(label, total, unit):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()  # all texts are read
    yield lambda amount=1, note="": None

merge_process.subprocess.Popen = start
draw = random.Random(0)
texts = ["".join(draw.choices("ACGT", k=50_000)) for _ in range(40)]  # which takes minutes
try:
    Tokenizer.train(texts, 5000, show=show)
except KeyboardInterrupt:
    print("interrupted", started[0].returncode)
"""


@pytest.mark.slow
def test_ctrl_c_while_merges_are_learned_ends_the_process() -> None:
    words = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["interrupted", str(-signal.SIGKILL)], done.stderr


@pytest.mark.slow
def test_a_process_that_ends_early_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(merge_process, "SMALL", 100)
    program = tmp_path / "merges.py"
    monkeypatch.setattr(merges, "__file__", str(program))
    for text, message in (("print(1 / 0)", "ZeroDivisionError"), ("import os; os.kill(os.getpid(), 9)", "-9")):
        program.write_text(text)
        with pytest.raises(ValueError, match=rf"were not learned \(.*{message}.*\)") as caught:
            Tokenizer.train(["a text " * 100_000], 400)
        assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif("SEQLOOM_BOOKS" not in os.environ, reason="SEQLOOM_BOOKS is not a folder of books")
def test_merges_of_books_are_those_of_the_package() -> None:
    texts = [
        piece for document in read(os.environ["SEQLOOM_BOOKS"]) for piece in pieces(document.text, BYTE_LEVEL_SEAMS)
    ]
    assert Tokenizer.train(texts, 5000).json == of_whole_words(texts, 5000).json


@pytest.mark.slow
def test_a_megabyte_without_a_word_takes_seconds() -> None:
    """Of whole words it took more than ten minutes."""
    code = "from seqloom.data.tokenizer import Tokenizer; Tokenizer.train(['-' * 1_000_000], 5000)"
    subprocess.run([sys.executable, "-c", code], timeout=120, check=True)
