"""How this process was launched: alone, or by torchrun as one of several. Read from the environment, without torch.

RANK   WORLD_SIZE   LOCAL_RANK       as torchrun sets them
"""

import os
import time
from typing import final

RANK_0_FIRST = 3.0
"""seconds that other ranks wait before they report an error, so that rank 0 reports the one that all have"""


@final
class Ended(ValueError):
    """A group of processes has ended. Only rank 0, or the lowest rank that is left, has the reason as its message."""


def size() -> int:
    """The number of processes that were launched together; 1 without a launcher."""
    return int(os.environ["WORLD_SIZE"]) if {"RANK", "WORLD_SIZE"} <= os.environ.keys() else 1


def rank() -> int:
    """The number of this process among those that were launched together, from 0."""
    return int(os.environ["RANK"]) if size() > 1 else 0


def local_rank() -> int:
    """The number of this process among those on this machine, from 0, which is the number of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0")) if size() > 1 else 0


def attributed(line: str, error: Exception) -> str:
    """The line that reports an error; with the rank of this process, unless it is rank 0.

    All ranks meet the same mistake of a command line. Rank 0 reports it at once and ends, and the launcher ends the
    other ranks while they wait here, so that the line appears once.
    """
    if rank() == 0 or isinstance(error, Ended):
        return line
    time.sleep(RANK_0_FIRST)
    return f"rank {rank()}: {line}"
