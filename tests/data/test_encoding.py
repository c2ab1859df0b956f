"""Processes that encode: the ids are those of one process, and the end of one is an error in one line."""

import functools
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from seqloom.data import encoding, pieces
from seqloom.data.documents import Document, Documents
from seqloom.data.encoding import Encoders, document_ids
from seqloom.data.tokenizer import Tokenizer

TEXTS = [f"{number} once upon a time, \u00e9\u4e2d <eos> " * (number % 5 + 1) for number in range(40)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, 300)


def rows(tokenizer: Tokenizer, texts: list[str], **options: int) -> list[tuple[list[int], int]]:
    documents = Documents.of([Document("", text) for text in texts])
    return [(ids.tolist(), size) for ids, size in document_ids(documents, tokenizer, **options)]


@pytest.mark.slow
def test_ids_are_the_same_for_every_number_of_processes(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "groups", functools.partial(pieces.groups, size=100))
    expected = rows(tokenizer, TEXTS)
    assert expected == [([*tokenizer.encode(text), 0], len(text.encode())) for text in TEXTS]
    for workers in (1, 2, 3):
        assert rows(tokenizer, TEXTS, workers=workers, first=7) == expected[7:]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_the_end_of_a_process_is_one_line(tokenizer: Tokenizer) -> None:
    with Encoders(tokenizer, 1) as encoders:
        assert [ids.tolist() for ids in encoders.encode(["a b", ""]).result()] == [tokenizer.encode("a b"), []]
        with pytest.raises(ValueError, match="half a surrogate pair"):
            encoders.encode(["\ud800"]).result()
        os.kill(encoders._processes[0].pid, signal.SIGKILL)
        with pytest.raises(ValueError, match=r"a process that encodes the text has ended \(-9\), as where the memory"):
            encoders.encode(["a"]).result()


PROGRAM = """
import os, signal
from seqloom.data.encoding import Encoders
from seqloom.data.tokenizer import Tokenizer

encoders = Encoders(Tokenizer.of_bytes(), 2)
encoders.encode(["a"]).result()
print("started", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_processes_end_with_the_one_that_started_them() -> None:
    """They share its pipe of errors, which is at its end when the last of them has ended."""
    killed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=False, timeout=240)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout == b"started\n"


def test_an_answer_of_the_program(tokenizer: Tokenizer) -> None:
    from seqloom.data.encoder import answer

    header, _, ids = answer(tokenizer, ["a", "", "b c"]).partition(b"\n")
    expected = [*tokenizer.encode("a"), *tokenizer.encode("b c")]
    assert np.frombuffer(ids, "<u4").tolist() == expected
    assert header.startswith(b'{"counts": [1, 0, ')
    assert answer(tokenizer, ["\ud800"]).startswith(b'{"error": "the text is not UTF-8')
