"""Faults that a process prepares for itself: at its n-th change of the file system, or at the beginning of a step."""

import errno
import io
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

import torch

from seqloom.training.loop import Updates


@final
@dataclass(frozen=True)
class AtWrite:
    """A kill at the call `call`, from 0, that opens a file to write, writes, renames or removes.

    Or a disk that is full from there on, which still renames and removes. A write that meets it has written half.
    """

    call: int
    how: Literal["kill", "full"]

    def __call__(self) -> None:
        _Calls(self).arm()


@final
@dataclass(frozen=True)
class AtStep:
    """A signal when step `step`, from 0, begins."""

    step: int
    number: signal.Signals

    def __call__(self) -> None:
        batch = Updates.batch

        def watched(updates: Updates, number: int) -> Any:
            if number == self.step:
                os.kill(os.getpid(), self.number)
            return batch(updates, number)

        Updates.batch = watched  # type: ignore[method-assign]  # in a process of the test's own


@final
@dataclass(frozen=True)
class OfVersion:
    """Another version of torch, as it says."""

    def __call__(self) -> None:
        torch.__version__ = "1.0.0"


@final
class _Calls:
    """Counts the calls of a process that change the file system."""

    def __init__(self, fault: AtWrite) -> None:
        self.fault = fault
        self.calls = 0
        self.open = io.open

    def arm(self) -> None:
        os.open = self._counted(os.open, lambda path, flags=0, *more: flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        needing_no_space = ("rename", "replace", "unlink", "rmdir") if self.fault.how == "kill" else ()
        for name in ("write", "ftruncate", "mkdir", *needing_no_space):
            setattr(os, name, self._counted(getattr(os, name)))
        io.open = self._open  # type: ignore[assignment]  # of Path.open
        os.fsync = lambda file: None  # a kill leaves what the system holds

    def meet(self) -> None:
        """One more call: the fault, if it is its turn."""
        self.calls += 1
        if self.fault.how == "kill" and self.calls == self.fault.call + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault.how == "full" and self.calls > self.fault.call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _counted(
        self, call: Callable[..., Any], counts: Callable[..., object] = lambda *values: True
    ) -> Callable[..., Any]:
        def counted(*values: Any, **named: Any) -> Any:
            if counts(*values):
                self.meet()
            return call(*values, **named)

        return counted

    def _open(self, file: Any, mode: str = "r", *values: Any, **named: Any) -> Any:
        if not set(mode) & set("wax+"):
            return self.open(file, mode, *values, **named)
        self.meet()
        return _Written(self.open(file, mode, *values, **named), self)


@final
class _Written:
    """A file whose writes are counted."""

    def __init__(self, file: Any, calls: _Calls) -> None:
        self._file = file
        self._calls = calls

    def write(self, data: Any) -> Any:
        half = self._file.write(data[: len(data) // 2])
        self._file.flush()
        self._calls.meet()
        return half + self._file.write(data[len(data) // 2 :])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
