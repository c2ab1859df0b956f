"""Ctrl-C and termination: the current step is finished and saved; a second signal stops at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self, final

_WATCHED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""those that the system has: Windows has no SIGHUP"""


@final
class Stop:
    """Inside the block, `asked` is the signal that came, or None. Outside the main thread it watches nothing."""

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in _WATCHED}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def ask(self, number: int) -> None:
        """Asks to stop as the signal of this number does."""
        self.asked = signal.Signals(number)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.ask(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
