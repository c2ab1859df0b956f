"""The server's addresses: the page, and what it asks for under /api; `v1` has OpenAI's form."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as WebRequest
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from seqloom.core.model import Model
from seqloom.evaluation.surprise import dependence, surprise
from seqloom.play.bodies import read_body
from seqloom.play.column import Column
from seqloom.play.drawing import column_of, draws_pictures
from seqloom.play.engine import Engine
from seqloom.play.errors import Refused, error_body, error_response
from seqloom.play.guard import REPORT_POLICY, Guard, hosts_of
from seqloom.play.live import live_rows
from seqloom.play.texts import Texts, answer_of, require_known, stream
from seqloom.play.v1 import Completions
from seqloom.play.writing import (
    Depending,
    Plotting,
    Scoring,
    Writing,
    describe_layer,
    describe_model,
    describe_score,
    read_asked,
    require_ids,
)

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("common.js", "text.js", "picture.js", "play.js")
FILES = {"/": "index.html"} | {f"/{name}": name for name in (*SCRIPTS, "play.css", "icon.svg")}


def build_app(engine: Engine, port: int) -> Starlette:
    """The application; the engine runs already."""
    pages = [Route(path, partial(_send_file, PAGE / name)) for path, name in FILES.items()]
    server = Server(engine)
    routes = [
        *pages,
        *Completions(engine).routes(),
        Route("/api/models", server.names),
        Route("/api/model", server.describe),
        Route("/api/write", server.write, methods=["POST"]),
        Route("/api/score", server.score, methods=["POST"]),
        Route("/api/depends", server.depends, methods=["POST"]),
        Route("/api/plots", server.plots, methods=["POST"]),
        Route("/api/live", server.live),
        Route("/api/reports", server.list_reports),
        Route("/report", server.show_report),
    ]
    handlers: dict[Any, Any] = {Refused: _refuse, HTTPException: _refuse_http, Exception: _fail}
    guard = Middleware(Guard, hosts=hosts_of(port))
    return Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)


async def _send_file(path: Path, request: WebRequest) -> Response:
    return FileResponse(path)


async def _refuse(request: WebRequest, error: Refused) -> Response:
    return error_response(error)


async def _refuse_http(request: WebRequest, error: HTTPException) -> Response:
    return error_response(Refused(f"{request.method} {request.url.path[:200]}: {error.detail}", error.status_code))


async def _fail(request: WebRequest, error: Exception) -> Response:
    return JSONResponse(error_body(f"a fault of the server: {type(error).__name__}", 500), 500)


@final
class Server:
    """What the page asks for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._library = engine.library

    def names(self, request: WebRequest) -> Response:
        """The names of the models, and of those that draw pictures."""
        self._library.find()
        names = self._library.names
        drawing = [name for name in names if draws_pictures(self._library.folder(name))]
        return JSONResponse({"models": names, "drawing": drawing})

    async def describe(self, request: WebRequest) -> Response:
        """A model, which is loaded for it."""
        name = require_known(self._library, request.query_params.get("name", ""))
        return JSONResponse(await answer_of(self._engine.call(name, describe_model)))

    async def write(self, request: WebRequest) -> Response:
        """Texts of several models, a line of JSON for each token."""
        asked: Writing = read_asked(Writing, await read_body(request))
        for name in asked.models:
            require_known(self._library, name)
        return await stream(self._stream_writing(asked))

    async def score(self, request: WebRequest) -> Response:
        """The surprise of each token of a text."""
        asked: Scoring = read_asked(Scoring, await read_body(request))
        score = await answer_of(
            self._engine.call(require_known(self._library, asked.model), lambda model: surprise(model, asked.text))
        )
        return _send_numbers(describe_score(score))

    async def depends(self, request: WebRequest) -> Response:
        """What a token of a text depends on."""
        asked: Depending = read_asked(Depending, await read_body(request))

        def compute(model: Model) -> list[float]:
            require_ids(model, asked.ids)
            return dependence(model, asked.ids, asked.position)

        changes = await answer_of(self._engine.call(require_known(self._library, asked.model), compute))
        return _send_numbers({"changes": changes})

    async def plots(self, request: WebRequest) -> Response:
        """What the mixer of a layer computes by itself, which no other mixer's numbers compare with."""
        asked: Plotting = read_asked(Plotting, await read_body(request))
        name = require_known(self._library, asked.model)
        return _send_numbers(await answer_of(self._engine.call(name, lambda model: describe_layer(model, asked))))

    def live(self, request: WebRequest) -> Response:
        """The losses of the runs."""
        self._library.find()
        folders = {name: self._library.folder(name) for name in self._library.names}
        return JSONResponse({"runs": live_rows(folders)})

    def list_reports(self, request: WebRequest) -> Response:
        """The reports, by their paths."""
        self._library.find()
        return JSONResponse({"reports": [str(path) for path in self._library.reports]})

    async def show_report(self, request: WebRequest) -> Response:
        """A report, in a sandbox: it may not ask this server for anything."""
        number = request.query_params.get("number", "")
        reports = self._library.reports
        if not (number.isascii() and number.isdecimal() and len(number) < 9 and int(number) < len(reports)):
            raise Refused("there is no report of this number: see /api/reports", 404)
        path = reports[int(number)]
        if path.is_symlink() or not path.is_file():
            raise Refused(f"{path} is no longer there", 404)
        return FileResponse(path, headers={"Content-Security-Policy": REPORT_POLICY})

    async def _stream_writing(self, asked: Writing) -> AsyncIterator[str]:
        """First a line for each column, then one for each token, and one at each end."""
        try:
            columns = [column_of(name, self._library.folder(name), asked) for name in asked.models]
        except (OSError, ValueError) as error:
            raise Refused(str(error)) from None
        owners: list[Column] = []
        async with Texts(self._engine) as texts:
            for column in columns:
                await texts.add(column.name, asked.samples, column.build)
                owners += [column] * (len(texts.requests) - len(owners))
            for column in {column.name: column for column in columns}.values():
                yield _line(column.describe())
            numbers = {request: index for index, request in enumerate(texts.requests)}
            sent = dict.fromkeys(texts.requests, 0)
            async for request, count, ended in texts.changes():
                column, number = owners[numbers[request]], numbers[request]
                ms = self._engine.milliseconds(column.name)
                for event in column.describe_changes(request, sent[request], count):
                    yield _line({"text": number, "ms": ms, **event})
                sent[request] = count
                if ended:
                    yield _line({"text": number, "end": request.end, "rest": request.rest, "error": request.error})


def _send_numbers(value: dict[str, Any]) -> Response:
    """What was computed, as JSON. Refused where a number is not finite, which JSON cannot hold."""
    try:
        return JSONResponse(value)
    except ValueError:
        raise Refused("the model's numbers are not finite: load an earlier checkpoint") from None


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value) + "\n"
