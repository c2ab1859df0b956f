"""How a group of processes ends where one of them fails: each reports its error, and one prints the cause in one line.

A process that fails writes a report into the launcher's store: its own error, or that it lost the others. All wait a
moment for the reports of the others. Those without a report are the ones that died or stalled, unless they only wait
inside torch for a process that has reported: a thread of theirs answers that they live. The lowest rank that has
reported raises the message, the others an empty one, so that a terminal shows one line.
"""

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, final

import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from seqloom.core.launch import Ended

GRACE = 5.0
"""seconds that a process waits for the reports of the others"""
LOOK = 1.0
"""seconds between two looks for a failure of another process, by the thread that answers it"""


class Lost(Exception):
    """Another process did not take part: it was waited for in vain for some `seconds`, or its connection broke."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__("another process was lost")
        self.seconds = seconds


def lost_by(error: BaseException, timeout: float) -> Lost | None:
    """The loss of another process, if `error` is torch's of a message that it did not send or take in `timeout` s.

    gloo's errors have no type of their own; each begins with the file of its transport that met it.
    """
    text = str(error)
    if not (isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo/transport/" in text)):
        return None
    return Lost(timeout if "imed out" in text else 0.0)


@final
class Reports:
    """The failures of a group's processes, by rank."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        self._store = store
        self._rank = rank
        self._size = size

    def require_none(self) -> None:
        """Raises Lost where a rank has reported a failure."""
        if self._read_reports():
            raise Lost

    @contextmanager
    def answers(self) -> Iterator[None]:
        """While the block runs, a thread answers the first failure: this process lives, though its report may wait.

        Of two processes, the one that failed to answer is the other.
        """
        if self._size == 2:
            yield
            return
        ended = threading.Event()

        def answer() -> None:
            with suppress(RuntimeError):  # whoever held the store has ended
                while not ended.wait(LOOK):
                    if self._ranks_under("failure"):
                        self._store.set(f"lives/{self._rank}", "")
                        return

        thread = threading.Thread(target=answer, name="answers", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def ending(self, error: BaseException) -> BaseException:
        """Reports an error, waits for the others' reports, and returns what this rank raises instead."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent by the launcher when a rank fails
        lost = isinstance(error, Lost)
        report = {"lost": lost, "seconds": getattr(error, "seconds", 0.0), "text": _describe(error)}
        try:
            self._store.set(f"failure/{self._rank}", json.dumps(report))
            reports = self._wait_for_reports()
            alive = self._ranks_under("lives")
        except RuntimeError:  # rank 0 held the store and died, or the launcher did
            reports, alive = {self._rank: report}, []
        if not (lost or isinstance(error, ValueError | OSError)):
            return error  # a fault of our own, whose traceback is printed, or Ctrl-C
        if self._rank != min(reports):
            return Ended("")
        causes = {rank: report["text"] for rank, report in reports.items() if not report["lost"]}
        if self._rank in causes:
            return error  # its own error is the cause
        if causes:
            first = min(causes)
            return Ended(f"rank {first}: {causes[first]}")
        return Ended(self._missing(reports, alive))

    def _missing(self, reports: dict[int, dict[str, Any]], alive: list[int]) -> str:
        """In words: which ranks have not reported, nor answered that they live, and what that means."""
        silent = [rank for rank in range(self._size) if rank not in reports]
        ranks = [rank for rank in silent if rank not in alive] or silent
        if not ranks:
            return "the connection between the processes broke; the same command continues from the last checkpoint"
        which = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(str(rank) for rank in ranks)}"
        seconds = max(report["seconds"] for report in reports.values())
        why = f"did not answer for {seconds:.0f} s" if seconds else "died"
        return f"{which} {why}; the same command continues from the last checkpoint"

    def _wait_for_reports(self) -> dict[int, dict[str, Any]]:
        """The reports of all ranks, or of those that report within `GRACE` seconds."""
        deadline = time.monotonic() + GRACE
        while len(reports := self._read_reports()) < self._size and time.monotonic() < deadline:
            time.sleep(0.05)
        return reports

    def _read_reports(self) -> dict[int, dict[str, Any]]:
        """The reports that are in the store now, by rank."""
        return {rank: json.loads(self._store.get(f"failure/{rank}")) for rank in self._ranks_under("failure")}

    def _ranks_under(self, name: str) -> list[int]:
        """The ranks that have put something into the store under a name."""
        return [rank for rank in range(self._size) if self._store.check([f"{name}/{rank}"])]


def _describe(error: BaseException) -> str:
    """The error's message on one line, as a terminal shows it; before one of our own faults its type."""
    message = (isinstance(error, OSError) and error.strerror) or str(error)
    kind = "" if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(message.split())}".rstrip(": ")
