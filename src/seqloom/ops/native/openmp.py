"""Torch's OpenMP runtime, which native code must share, because two runtimes in one process compete for the cores."""

import os
import sys
from pathlib import Path

import torch

_NAMES = ("libgomp", "libomp", "libiomp5")
_forked = False


def runtime() -> Path | None:
    """The file of the runtime that this process has loaded, torch's if there are several; None without any."""
    try:
        mapped = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    columns = (line.split(maxsplit=5) for line in mapped)
    files = sorted({Path(line[5]) for line in columns if len(line) == 6})
    runtimes = [path for path in files if path.name.startswith(_NAMES)]
    torch_runtimes = [path for path in runtimes if path.is_relative_to(Path(torch.__file__).parents[1])]
    return next(iter(torch_runtimes or runtimes), None)


def threads(numbers: int, least: int = 32_768) -> int:
    """The number of threads for `numbers` numbers, at least `least` per thread and at most torch's.

    1 in a forked process, where GNU's OpenMP hangs, and where the number is a symbol of a graph that is captured.
    """
    if _forked or isinstance(numbers, torch.SymInt):
        return 1
    return 1 if numbers < 2 * least else min(torch.get_num_threads(), numbers // least)


def _fork() -> None:
    global _forked  # noqa: PLW0603  # a forked process stays one
    _forked = True


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_fork)
