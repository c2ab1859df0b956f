"""The ids of documents, in order: by the threads of the tokenizer in this process, or by processes of their own.

    documents → groups of pieces, about 2 MB each → ids, group by group → the ids of each document

With `workers` a group, which is a contiguous range of the text, is encoded by a process (`encoder`) with one thread;
this process reads the text and joins the ids. The ids are the same for every number of processes.
"""

import itertools
import json
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Self, final

import numpy as np

from seqloom.core.progress import progress
from seqloom.data.documents import Documents
from seqloom.data.pieces import Group, groups
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Ids, id_type

PROGRAM = "seqloom.data.encoder"
_AHEAD = 2
"""groups for each process that are read before the first of them is needed"""


def document_ids(
    documents: Documents, tokenizer: Tokenizer, first: int = 0, workers: int = 0
) -> Iterator[tuple[Ids, int]]:
    """The ids of each document from the `first` on, the end token last, and the UTF-8 bytes of its text.

    `workers` processes encode; with 0 it is this one. ValueError where one ends before it is done.
    """
    dtype = id_type(tokenizer.vocab)
    id_arrays: list[Ids] = []
    size = 0
    with progress("tokens", documents.characters, "characters") as advance, ExitStack() as stack:
        texts = (document.text for document in documents)
        for text in itertools.islice(texts, first):
            advance(len(text))
        encoders = stack.enter_context(Encoders(tokenizer, workers)) if workers else None
        for group, rows in _encode(groups(texts, tokenizer.seams), tokenizer, encoders):
            for (_, last, text), ids in zip(group, rows, strict=True):
                id_arrays.append(np.array(ids, dtype))
                size += len(text.encode())
                if last:
                    yield np.concatenate([*id_arrays, np.array([tokenizer.eos], dtype)]), size
                    id_arrays, size = [], 0
                advance(len(text))


def _encode(
    text_groups: Iterator[Group], tokenizer: Tokenizer, encoders: "Encoders | None"
) -> Iterator[tuple[Group, Sequence[Ids | list[int]]]]:
    """Each group with the ids of its pieces."""
    if encoders is None:
        for group in text_groups:
            yield group, tokenizer.encode_many([text for *_, text in group])
        return
    waiting: deque[tuple[Group, Future[list[Ids]]]] = deque()
    for group in text_groups:
        waiting.append((group, encoders.encode([text for *_, text in group])))
        if len(waiting) == _AHEAD * encoders.count:
            first, ids = waiting.popleft()
            yield first, ids.result()
    for group, ids in waiting:
        yield group, ids.result()


@final
class Encoders:
    """Processes that encode texts, each fed by a thread of this one. They end with the block, or with this process."""

    def __init__(self, tokenizer: Tokenizer, count: int) -> None:
        self.count = count
        self._threads = ThreadPoolExecutor(count, "encoder")
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes = [_start(tokenizer) for _ in range(count)]
        for process in self._processes:
            self._idle.put(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()

    def encode(self, texts: list[str]) -> Future[list[Ids]]:
        """The ids of each text, once a process has encoded them; ValueError where it ended before."""
        return self._threads.submit(self._encode, texts)

    def _encode(self, texts: list[str]) -> list[Ids]:
        process = self._idle.get()
        try:
            return _ask(process, texts)
        finally:
            self._idle.put(process)


def _start(tokenizer: Tokenizer) -> subprocess.Popen[bytes]:
    """A process that encodes with this tokenizer. Its end of the pipe is closed when this process ends."""
    # -P: the files of the current folder are no modules
    command = [sys.executable, "-P", "-m", PROGRAM]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _send(process, tokenizer.json)
    return process


def _ask(process: subprocess.Popen[bytes], texts: list[str]) -> list[Ids]:
    """The ids of each text by one process."""
    assert process.stdout is not None
    _send(process, texts)
    header = process.stdout.readline()
    if not header:
        raise ValueError(
            f"a process that encodes the text has ended ({process.wait()}), as where the memory is too small: the same "
            "command goes on after the last whole shard"
        )
    answer = json.loads(header)
    if "error" in answer:
        raise ValueError(answer["error"])
    counts = answer["counts"]
    ids = np.frombuffer(process.stdout.read(4 * sum(counts)), "<u4")
    return np.split(ids, np.cumsum(counts)[:-1])


def _send(process: subprocess.Popen[bytes], value: str | list[str]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(value).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it has ended, which the missing answer says
