"""A program that encodes texts for another process (`encoding`), with one thread.

    in     a line of JSON with tokenizer.json, then one for each list of texts
    out    for each list a line of JSON, {counts: [ids of each text]} or {error}, and the ids (uint32)

It ends where its input ends, so also when the other process does.
"""

import json
import os
import signal
import sys

import numpy as np
import tokenizers

from seqloom.data.tokenizer import Tokenizer


def main() -> None:
    """Answers until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process hears it, and ends this one
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    lines = (json.loads(line) for line in sys.stdin.buffer)
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_str(next(lines)))
    for texts in lines:
        sys.stdout.buffer.write(answer(tokenizer, texts))
        sys.stdout.buffer.flush()


def answer(tokenizer: Tokenizer, texts: list[str]) -> bytes:
    """The ids of texts as they are sent, or why they have none."""
    try:
        rows = tokenizer.encode_many(texts)
    except ValueError as error:
        return json.dumps({"error": str(error)}).encode() + b"\n"
    ids = np.concatenate([np.array(row, "<u4") for row in rows])
    return json.dumps({"counts": [len(row) for row in rows]}).encode() + b"\n" + ids.tobytes()


if __name__ == "__main__":
    main()
