"""The batches of steps, the next one made in a thread while the device works on this one.

A batch is a function of (seed, step), so that it is the same in whichever thread it is made. An error in the thread is
raised where its batch is asked for. The thread ends with the object that holds it, after the batch that it makes.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Prefetch(Generic[T]):
    """What `make` gives for each step before `end`, counted from 0; `make` does not depend on what is trained."""

    def __init__(self, make: Callable[[int], T], end: int) -> None:
        self._make = make
        self._end = end
        self._thread = ThreadPoolExecutor(1, "batches")
        self._next: tuple[int, Future[T]] | None = None

    def take(self, number: int) -> T:
        """The batch of a step; the one after it is then being made."""
        batch = self._take(number)
        if number + 1 < self._end:
            self._next = (number + 1, self._thread.submit(self._make, number + 1))
        return batch

    def drop(self) -> None:
        """Forgets the batch that was made ahead, which later ones do not fit."""
        ahead, self._next = self._next, None
        if ahead is not None and not ahead[1].cancel():
            ahead[1].exception()  # waits for it

    def _take(self, number: int) -> T:
        """The batch that was made ahead, or else one that is made here."""
        ahead, self._next = self._next, None
        if ahead is not None and ahead[0] == number:
            return ahead[1].result()
        return self._make(number)
