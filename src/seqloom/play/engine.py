"""One thread that computes: it steps the batchers of all models in turn, so that no text slows another down.

engine.submit(name, build, listen)      texts of a model; `listen` is called in the thread after each of their tokens
engine.call(name, work)                 what else is computed with a model, between two tokens
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from statistics import median
from typing import Any, TypeAlias, TypeVar, final

import torch

from seqloom.core.model import Model
from seqloom.core.rest import Rest
from seqloom.generation.batcher import Batcher
from seqloom.generation.modes import default_mode, window
from seqloom.generation.requests import Request
from seqloom.play.library import Library

Listen: TypeAlias = Callable[[Request], None]
Build: TypeAlias = Callable[[Model], Sequence[Request]]
T = TypeVar("T")
MOST = 64
"""the most texts that wait or are written"""
SECONDS = 600.0
"""after which a text ends, finished or not"""
TIMED = 32
"""the last tokens whose time is shown"""


@final
class Full(Exception):
    """There are as many texts as there may be: ask again later."""


@final
class Engine:
    """The thread, from `start` to `close`."""

    def __init__(self, library: Library, most: int = MOST) -> None:
        self.library = library
        self._most = most
        self._jobs: deque[Callable[[], None]] = deque()
        self._batchers: dict[str, Batcher] = {}
        self._listeners: dict[Request, Listen] = {}
        self._times: dict[str, deque[float]] = {}
        self._awake = threading.Condition()
        self._asked = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="seqloom-play", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends all texts and the thread."""
        with self._awake:
            self._closed = True
            self._awake.notify()
        self._thread.join()

    def submit(self, name: str, count: int, build: Build, listen: Listen) -> "Future[Sequence[Request]]":
        """Takes `count` texts that `build` makes for the model; the future has them once they are accepted.

        Full where there are too many; the future raises what loading and checking raise.
        """
        with self._awake:
            if self._asked + count > self._most:
                raise Full
            self._asked += count

        def accept(model: Model) -> Sequence[Request]:
            try:
                requests = build(model)
                for request in requests:
                    request.deadline = time.monotonic() + SECONDS
                self._batcher(name, model).submit(requests)
            except BaseException:
                self._release(count)
                raise
            self._listeners |= dict.fromkeys(requests, listen)
            return requests

        return self._put(name, accept, lambda: self._release(count))

    def call(self, name: str, work: Callable[[Model], T]) -> "Future[T]":
        """Computes something with a model."""
        return self._put(name, work, lambda: None)

    def milliseconds(self, name: str) -> float | None:
        """The median time of the last tokens of a model's texts."""
        times = self._times.get(name)
        return 1e3 * median(times) if times else None

    def _put(self, name: str, work: Callable[[Model], T], refused: Callable[[], None]) -> "Future[T]":
        """Puts work with a model into the queue; `refused` is called where the model is not there."""
        future: Future[T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                refused()
                return
            try:
                model = self.library.get(name, self._is_busy)
            except Exception as error:
                refused()
                future.set_exception(error)
                return
            try:
                with Rest(model):
                    future.set_result(work(model))
            except Exception as error:
                future.set_exception(error)

        with self._awake:
            if self._closed:
                refused()
                raise Full
            self._jobs.append(job)
            self._awake.notify()
        return future

    def _run(self) -> None:
        """Jobs first, then a token of each model, until `close`."""
        torch.set_num_threads(max(torch.get_num_threads(), 1))
        while True:
            with self._awake:
                self._awake.wait_for(lambda: self._closed or self._jobs or self._any_busy())
                if self._closed:
                    break
                jobs = list(self._jobs)
                self._jobs.clear()
            for job in jobs:
                job()
            for name, batcher in list(self._batchers.items()):
                if batcher.busy:
                    self._step(name, batcher)
                elif not self.library.has(name):
                    del self._batchers[name]
        for request in list(self._listeners):
            request.finish("cancelled")
            self._tell(request)

    def _step(self, name: str, batcher: Batcher) -> None:
        """A token of each text of a model; where that fails, these texts fail."""
        began = time.perf_counter()
        try:
            changed = batcher.step()
        except Exception as error:
            changed = [request for request in self._listeners if request.model is batcher.model]
            for request in changed:
                request.finish("failed", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            del self._batchers[name]
        self._times.setdefault(name, deque(maxlen=TIMED)).append(time.perf_counter() - began)
        for request in changed:
            self._tell(request)

    def _tell(self, request: Request) -> None:
        """Tells who listens to a text, for the last time where it has ended."""
        listen = self._listeners.get(request)
        if request.end is not None and self._listeners.pop(request, None) is not None:
            self._release(1)
        if listen is not None:
            listen(request)

    def _batcher(self, name: str, model: Model) -> Batcher:
        """The batcher of a model; a model that was loaded again gets a new one."""
        batcher = self._batchers.get(name)
        if batcher is None or batcher.model is not model:
            batcher = Batcher(model, **reading_of(model))
            self._batchers[name] = batcher
        return batcher

    def _release(self, count: int) -> None:
        with self._awake:
            self._asked -= count

    def _is_busy(self, name: str) -> bool:
        return name in self._batchers and self._batchers[name].busy

    def _any_busy(self) -> bool:
        return any(batcher.busy for batcher in self._batchers.values())


def reading_of(model: Model) -> dict[str, Any]:
    """How the page's texts are read: the model's mode; a full window drops a quarter of its tokens at once."""
    mode = default_mode(model)
    return {"mode": mode, "hop": max(1, window(model) // 4) if mode == "slide" else 1}
