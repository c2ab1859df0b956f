"""How this process was launched: alone, or by torchrun as one of several. Read from the environment, without torch.

RANK   WORLD_SIZE   LOCAL_RANK   MASTER_ADDR   MASTER_PORT       as torchrun sets them
TORCHELASTIC_ERROR_FILE                                             where it reads why a process failed
"""

import json
import os
import time
from contextlib import suppress
from typing import final

MOST = 1 << 20
"""the most processes that can be launched together"""
ADVICE = "start several processes with torchrun, or unset RANK and WORLD_SIZE"
RANK_0_FIRST = 3.0
"""seconds that other ranks wait before they report an error, so that rank 0 reports the one that all have"""


@final
class Ended(ValueError):
    """A group of processes has ended. Only rank 0, or the lowest rank that is left, has the reason as its message."""


def size() -> int:
    """The number of processes that were launched together; 1 without a launcher.

    ValueError, as for all functions here, where the environment holds what no launcher sets.
    """
    return _number("WORLD_SIZE", 1, MOST) if {"RANK", "WORLD_SIZE"} <= os.environ.keys() else 1


def rank() -> int:
    """The number of this process among those that were launched together, from 0."""
    return _number("RANK", 0, size() - 1) if size() > 1 else 0


def local_rank() -> int:
    """The number of this process among those on this machine, from 0, which is the number of its GPU."""
    return _number("LOCAL_RANK", 0, size() - 1) if size() > 1 and "LOCAL_RANK" in os.environ else 0


def report_failure(line: str) -> None:
    """Writes why this process fails where torchrun looks for it, so that its own table repeats the line."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    report = {"message": line, "extraInfo": {"timestamp": str(int(time.time()))}}
    with suppress(OSError), open(path, "w", encoding="utf-8") as file:  # the line itself has been printed
        json.dump({"message": report}, file)


def local_size() -> int:
    """The number of processes on this machine that were launched together."""
    return _number("LOCAL_WORLD_SIZE", 1, size()) if size() > 1 and "LOCAL_WORLD_SIZE" in os.environ else size()


def require_address() -> None:
    """ValueError unless the environment says where the processes meet: MASTER_ADDR, and the port MASTER_PORT."""
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name):
            raise ValueError(f"the environment has no {name}: {ADVICE}")
    _number("MASTER_PORT", 0, 65535)


def _number(name: str, least: int, most: int) -> int:
    """The number in a variable of the environment."""
    text = os.environ[name]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not least <= number <= most:
        raise ValueError(
            f"the environment's {name} is {text[:40]!r}, not a number from {least:,} to {most:,}: {ADVICE}"
        )
    return number


def name_rank(line: str, error: Exception) -> str:
    """The line that reports an error; with the rank of this process, unless it is rank 0.

    All ranks meet the same mistake of a command line. Rank 0 reports it at once and ends, and the launcher ends the
    other ranks while they wait here, so that the line appears once.
    """
    try:
        alone = rank() == 0
    except ValueError:  # the error that is reported is that of the environment itself
        alone = True
    if alone or isinstance(error, Ended):
        return line
    time.sleep(RANK_0_FIRST)
    return f"rank {rank()}: {line}"
