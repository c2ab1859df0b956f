"""A lease: what one of several machines with a shared folder holds alone, for as long as it rewrites a file.

    NAME-1, NAME-2, …      the file of the highest number is the lease. Its holder rewrites it at every beat, and gives
                           it up by the text `free`; who takes it makes the file of the next number, as only one can

A machine judges another's lease by what it saw itself: a text that did not change for `patience` seconds of its own
looking is of a dead holder. No clock of another machine is read, and no lock of the system, which a network file
system may not pass on; a new file and a rename are atomic there too. Time in which this process did not look, because
it or the file system stood still, does not count. A holder that stood still finds the next number, and knows that it
lost.

Source: the leases of Gray and Cheriton, 1989, doi:10.1145/74851.74870, without the clocks.
"""

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

from seqloom.core.files import read_bytes
from seqloom.core.progress import Say
from seqloom.runs.durable import discard, replace, write_new

PATIENCE = 60.0
"""seconds without a change after which a holder counts as dead"""
BEATS, LOOKS = 6, 30
"""how often, in that time, the holder rewrites the file, and the others look at it"""
FREE = b"free"
LARGEST = 4096


@final
class Lease:
    """The lease NAME of a folder that is there; `path` is FOLDER/NAME."""

    def __init__(self, path: Path, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._held = 0
        self._beat = 0
        self._next_beat = 0.0
        self._seen: tuple[int, bytes] = (0, FREE)
        self._looked = self._unchanged = 0.0

    def take(self) -> bool:
        """Takes the lease where it is free or its holder is dead; looks at it once. OSError where that fails."""
        number = self._newest()
        if number:
            try:
                text = read_bytes(self._file(number), LARGEST, follow=False)
            except FileNotFoundError:  # it was taken or given up meanwhile
                return False
            if text != FREE and not self._is_dead(number, text):
                return False
        try:
            write_new(self._file(number + 1), self._text())
        except FileExistsError:
            return False
        self._held = number + 1
        self._next_beat = time.monotonic() + self._patience / BEATS
        for older in self._numbers():
            if older < self._held:
                discard(self._file(older))
        return True

    def renew(self) -> bool:
        """Rewrites the file where a beat is due. False where another has taken the lease, which is then not held."""
        now = time.monotonic()
        if now < self._next_beat:
            return True
        self._next_beat = now + self._patience / BEATS
        with suppress(OSError):  # a full disk, or a server that is away: tried again at the next beat
            if self._newest() != self._held:
                return False
            replace(self._file(self._held), self._text())
        return True

    def give_up(self) -> None:
        """Lets another take the lease at once; where that cannot be written, the others wait."""
        with suppress(OSError):
            if self._newest() == self._held:
                replace(self._file(self._held), FREE)

    def remove(self) -> None:
        """Removes the lease, after its work is done."""
        discard(self._file(self._held))

    def holder(self) -> str:
        """The process that holds the lease, in words."""
        with suppress(OSError, ValueError):
            pid, host, _ = read_bytes(self._file(self._newest()), LARGEST, follow=False).decode().split(" ")
            return f"process {pid} on {host}"
        return "another process"

    def _is_dead(self, number: int, text: bytes) -> bool:
        """Whether a text has been the same for long enough, with this look as one more."""
        now = time.monotonic()
        if (number, text) == self._seen:
            self._unchanged += min(now - self._looked, self._patience / BEATS)
        else:
            self._seen, self._unchanged = (number, text), 0.0
        self._looked = now
        return self._unchanged >= self._patience

    def _newest(self) -> int:
        """The highest number; 0 where the lease was never held."""
        return max(self._numbers(), default=0)

    def _numbers(self) -> list[int]:
        name = re.compile(re.escape(self._path.name) + r"-(\d+)")
        matches = [name.fullmatch(entry) for entry in os.listdir(self._path.parent)]
        return [int(match[1]) for match in matches if match]

    def _file(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}-{number}")

    def _text(self) -> bytes:
        self._beat += 1
        return f"{os.getpid()} {socket.gethostname()} {self._beat}".encode()


@contextmanager
def hold(path: Path, patience: float = PATIENCE, say: Say | None = None) -> Iterator[None]:
    """Holds the lease `path` inside the block, and waits for it before; `say` gets a line where it must wait."""
    lease = Lease(path, patience)
    while not lease.take():
        if say is not None:
            say(f"waiting for {lease.holder()}, which has {path.name}")
            say = None
        time.sleep(patience / LOOKS)
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(lease, ended, patience / BEATS), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        lease.give_up()


def _beat(lease: Lease, ended: threading.Event, seconds: float) -> None:
    """Renews a lease until its holder has ended, or another has taken it."""
    while not ended.wait(seconds):
        if not lease.renew():
            return
