"""`--minutes N`: a command that ends N minutes after its process began, as by Ctrl-C: saved, and continued by the same.

    seqloom train llama/small --data books/ --out runs/a --minutes 50        exit code 75 where batches are left

The exit code is that of sysexits.h for "try again", so that a queue knows whether to run the command once more.
"""

import functools
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any

import typer

from seqloom.cli.over import AGAIN, OVER
from seqloom.core.launch import rank

INTERRUPTED = 128 + signal.SIGINT
BEGAN = time.monotonic()
"""about when the process began: this module is among the first that are loaded"""
Minutes = Annotated[
    float | None,
    typer.Option(help="end after so many minutes, saved: the same command continues (exit code 75 if work is left)"),
]


def time_limited(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the option `--minutes`."""

    @functools.wraps(command)
    def run_limited(*arguments: Any, minutes: float | None = None, **named: Any) -> Any:
        return limited_to(minutes, lambda: command(*arguments, **named))

    signature = inspect.signature(command)
    option = inspect.Parameter("minutes", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Minutes)
    run_limited.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]  # read by typer
    run_limited.__annotations__ = {**command.__annotations__, "minutes": Minutes}
    return run_limited


def limited_to(minutes: float | None, work: Callable[[], Any]) -> Any:
    """Does the work, which is interrupted when its time is over; returns its exit code, or `AGAIN`."""
    if minutes is None:
        return work()
    require_above_zero(minutes)
    OVER.clear()
    left = max(0.0, 60 * minutes - (time.monotonic() - BEGAN))
    timer = threading.Timer(min(left, threading.TIMEOUT_MAX), _interrupt)
    timer.daemon = True
    try:
        timer.start()
        code = work()
    except KeyboardInterrupt:
        if not OVER.is_set():
            raise
        code = INTERRUPTED
    finally:
        timer.cancel()
    if not OVER.is_set() or code != INTERRUPTED:
        return code
    if rank() == 0:
        print(f"the {minutes:g} minutes are over; the same command continues", file=sys.stderr)
    return AGAIN


def require_above_zero(minutes: float) -> None:
    """Raises ValueError unless there is a time that can end."""
    if not (isfinite(minutes) and minutes > 0):
        raise ValueError(f"--minutes must be a number above 0, not {minutes:g}")


def _interrupt() -> None:
    """Sends this process what Ctrl-C sends it."""
    OVER.set()
    os.kill(os.getpid(), signal.SIGINT)
