"""Learns the merges of a tokenizer so that Ctrl-C ends it and its progress is known.

The package `tokenizers` learns them in one call, which hears no signal. So the merges of a text of more than `SMALL`
characters are learned in a process of their own (`merges`), which tells its progress and is ended with this one's call.
"""

import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

import tokenizers

from seqloom.core.progress import Advance, Show, show_nothing
from seqloom.data import merges

SMALL = 1 << 18
"""characters whose merges are learned here, which takes a second or two at most"""


def learn_merges(texts: Iterable[str], vocab: int, *, show: Show = show_nothing) -> tokenizers.Tokenizer:
    """As `merges.learned_merges`. `show` is called as `core.progress.progress` is.

    ValueError where the process ends before it is done, as where the memory is too small.
    """
    waiting = iter(texts)
    first: list[str] = []
    characters = 0
    for text in waiting:
        first.append(text)
        characters += len(text)
        if characters > SMALL:
            return _learned_apart(itertools.chain(first, waiting), vocab, show)
    return merges.learned_merges(first, vocab)


def _learned_apart(texts: Iterable[str], vocab: int, show: Show) -> tokenizers.Tokenizer:
    """The tokenizer, from a process that ends when this call does, whatever ends it."""
    # -P: the files next to the program, and those of the current folder, are no modules
    command = [sys.executable, "-P", merges.__file__]
    with (
        tempfile.TemporaryFile() as answer,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answer, stderr=subprocess.PIPE) as process,
    ):
        try:
            reason = _converse(process, texts, vocab, show)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            raise ValueError(f"the merges of the tokenizer were not learned ({reason or process.returncode})")
        answer.seek(0)
        return tokenizers.Tokenizer.from_str(answer.read().decode())


def _converse(process: subprocess.Popen[bytes], texts: Iterable[str], vocab: int, show: Show) -> str:
    """Sends the texts to the process and shows its progress; returns the last line it wrote that is none of that."""
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        with process.stdin as lines:
            for value in itertools.chain((vocab,), texts):
                lines.write(json.dumps(value).encode() + b"\n")
    except BrokenPipeError:
        pass  # it has ended, and says why in its last line
    reason = ""
    with show("merges of the tokenizer", vocab, "tokens") as advance:
        shown = 0
        for line in process.stderr:
            told = _parse_progress(line)
            if told is None:
                reason = line.decode(errors="replace").strip() or reason
            elif told.get("stage") == "Compute merges":
                shown = _show_progress(int(told["current"]), shown, vocab, advance)
    return reason


def _parse_progress(line: bytes) -> dict[str, Any] | None:
    """What a line says about the progress; None for any other line."""
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _show_progress(current: int, shown: int, total: int, advance: Advance) -> int:
    """Advances to `current` of `total`, at most a thousand times in all; returns how far it has advanced."""
    if current - shown < total / 1000 and current < total:
        return shown
    advance(current - shown)
    return current
