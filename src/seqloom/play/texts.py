"""Texts that are asked for over the web: taken by the engine's thread, awaited in the server's loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, final

from starlette.requests import Request as WebRequest
from starlette.responses import Response, StreamingResponse

from seqloom.core.model import Model
from seqloom.generation.requests import Request
from seqloom.play.engine import Engine, Full
from seqloom.play.errors import Refused
from seqloom.play.library import Library

T = TypeVar("T")
Change = tuple[Request, int, bool]
"""a text, its number of tokens now, and whether it has ended"""


@final
class Texts:
    """The texts of one request; leaving the `async with` cancels those that are not ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self.requests: list[Request] = []

    async def __aenter__(self) -> "Texts":
        return self

    async def __aexit__(self, *_: object) -> None:
        for request in self.requests:
            request.cancel()

    async def add(self, name: str, count: int, build: Callable[[Model], Sequence[Request]]) -> None:
        """Asks for texts of a model. Refused where the model, its memory or the number of texts does not allow it."""
        try:
            future = self._engine.submit(name, count, build, self._listen)
        except Full:
            raise Refused("as many texts are written as there may be: ask again later", 429, retry=1) from None
        try:
            accepted = await answer_of(future)
        except asyncio.CancelledError:  # the client has gone, and the texts may be accepted after that
            future.add_done_callback(_cancel_accepted)
            raise
        self.requests += accepted

    async def changes(self) -> AsyncIterator[Change]:
        """Each change of a text, until all have ended."""
        running = set(self.requests)
        while running:
            change = await self._changes.get()
            if change[2]:
                running.discard(change[0])
            yield change

    def _listen(self, request: Request) -> None:
        change = (request, len(request.tokens), request.end is not None)
        self._loop.call_soon_threadsafe(self._changes.put_nowait, change)


def _cancel_accepted(future: "Future[Any]") -> None:
    """Cancels texts whose client had gone when they were accepted."""
    if not future.cancelled() and future.exception() is None:
        for request in future.result():
            request.cancel()


async def answer_of(future: "Future[T]") -> T:
    """What the engine's thread computed. Refused for an error of the user's."""
    try:
        return await asyncio.wrap_future(future)
    except (ValueError, TypeError) as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(f"{error.filename or 'a file'}: {error.strerror or error}", 404) from None
    except (MemoryError, RuntimeError) as error:
        raise Refused(f"this cannot be computed ({(str(error).splitlines() or ['no memory'])[0]})") from None


async def wait_while_connected(web: WebRequest, work: Any) -> Any:
    """The result of a coroutine, which is cancelled when the client has gone."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait({task}, timeout=0.2)
        if not task.done() and await web.is_disconnected():
            task.cancel()
    return await task


async def stream(pieces: AsyncIterator[str]) -> Response:
    """A streamed response; what goes wrong before its first piece has a status of its own."""
    first = await anext(pieces)

    async def rest() -> AsyncIterator[str]:
        try:
            yield first
            async for piece in pieces:
                yield piece
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]  # of a generator

    return StreamingResponse(rest(), media_type="text/event-stream")


def require_known(library: Library, name: str) -> str:
    """The name of a model. Refused for another."""
    if name not in library.names:
        raise Refused(f"there is no model {name[:100]!r}: see /v1/models", 404)
    return name
