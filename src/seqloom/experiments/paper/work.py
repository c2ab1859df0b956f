"""A cell in a process of its own: `python -m seqloom.experiments.paper.work`, which reads its task from standard input.

The task is a line of JSON: settings, folder, allow_drift. When standard input ends, the process that started this one
is gone, and the cell is saved and left. Exit code 0 when it is done, 128 + signal when stopped, 2 with one line for an
error.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seqloom.core.config import read
from seqloom.core.progress import Advance
from seqloom.training.config import RunConfig
from seqloom.training.train import train


def work(settings: dict[str, Any], folder: str, allow_drift: bool = False) -> int:
    """Trains a cell to its end; the exit code. Quiet: who wants to know how far it is reads its rows."""
    outcome = train(read(RunConfig, settings), Path(folder), allow_drift=allow_drift, say=_say, show=_unshown)
    return 0 if outcome.asked is None else 128 + int(outcome.asked)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def _unshown(label: str, total: float, unit: str = "", *, start: float = 0) -> Iterator[Advance]:
    yield lambda amount=1, note="": None


def _leave_with_the_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    try:
        sys.exit(work(**task))
    except (ValueError, OSError) as error:
        _say(" ".join(str(error).split()))
        sys.exit(2)
