"""Processes that start together agree on a name for this attempt, whatever is left of an earlier one.

    rank r:  hello/r = a word of its own                 until welcome has that word, then ack/r = the name
    rank 0:  welcome = (the name, every rank's word)     until every ack is the name

The store of `torchrun --max-restarts` outlives the processes that it starts again, with all that the dead ones wrote:
the addresses at which they listened, and their messages. So a group's keys begin with the name of its attempt.
torchrun's own number, TORCHELASTIC_RESTART_COUNT, is not such a name: a machine that starts its processes again because
another one has lost some does not count it (`--rdzv-backend c10d`).
"""

import json
import time
from collections.abc import Callable
from uuid import uuid4

from torch.distributed.distributed_c10d import Store

POLL = 0.02
"""seconds between looks at the store"""


def agree_on_attempt(store: Store, rank: int, size: int, timeout: float) -> str:
    """The name of this attempt, the same in each of `size` processes; rank 0 chooses it.

    RuntimeError where one of them does not answer within `timeout` seconds.
    """
    word = uuid4().hex
    store.set(f"hello/{rank}", word)
    if rank:
        _wait(lambda: word in _welcome(store), timeout)
        name = _welcome(store)[0]
        store.set(f"ack/{rank}", name)
        return name
    ranks = range(1, size)
    _wait(lambda: _invite(store, word, ranks), timeout)
    return word


def _invite(store: Store, name: str, ranks: range) -> bool:
    """Welcomes the processes that are here by now; whether all of them have accepted."""
    words = [_get(store, f"hello/{rank}") for rank in ranks]
    welcome = [name, *words]
    if _welcome(store) != welcome:
        store.set("welcome", json.dumps(welcome))
    return all(_get(store, f"ack/{rank}") == name for rank in ranks)


def _welcome(store: Store) -> list[str]:
    """Rank 0's name of the attempt and the words that it has read; empty where it has not been here."""
    words: list[str] = json.loads(_get(store, "welcome") or "[]")
    return words


def _get(store: Store, key: str) -> str:
    """The text under a key; empty where there is none."""
    return store.get(key).decode() if store.check([key]) else ""


def _wait(true: Callable[[], bool], timeout: float) -> None:
    """Waits until a condition is true."""
    deadline = time.monotonic() + timeout
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError("not all answered in time")
        time.sleep(POLL)
