"""How this process was launched: alone, or by torchrun as one of several. Read from the environment, without torch.

RANK   WORLD_SIZE   LOCAL_RANK       as torchrun sets them
"""

import os
import time
from typing import final

ALIKE = 3.0
"""seconds within which a mistake that all processes make is reported by rank 0"""


@final
class Ended(ValueError):
    """Why a group of processes ended. Rank 0, or the lowest rank that is left, has the message; others an empty one."""


def size() -> int:
    """The number of processes that were launched together; 1 without a launcher."""
    return int(os.environ["WORLD_SIZE"]) if {"RANK", "WORLD_SIZE"} <= os.environ.keys() else 1


def rank() -> int:
    """The number of this process among them, from 0."""
    return int(os.environ["RANK"]) if size() > 1 else 0


def local_rank() -> int:
    """The number of this process among those of this machine, from 0: that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0")) if size() > 1 else 0


def attributed(line: str, error: Exception) -> str:
    """The line that reports an error, with the rank of the process where rank 0 has not the same error.

    A mistake of the command line is one of all ranks. Rank 0 reports it and ends, and the launcher ends the others
    while they wait here.
    """
    if rank() == 0 or isinstance(error, Ended):
        return line
    time.sleep(ALIKE)
    return f"rank {rank()}: {line}"
