"""What ends long work that a signal stopped: everything was saved, and the same command goes on."""

from typing import final


@final
class Stopped(Exception):
    """A signal stopped a run, which was saved; `code` is the exit code of a process that a signal ends."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"stopped and saved; the same command goes on with {name}")
        self.code = code
