"""Completions and models in OpenAI's form, under /v1."""

import json
import random
from collections.abc import AsyncIterator
from typing import Any, final

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from seqloom.core.model import Model
from seqloom.core.seeds import LIMIT
from seqloom.play.bodies import read_body
from seqloom.play.completion import Answer, Completion, prompts_of, read_completion, requests_of
from seqloom.play.engine import Engine
from seqloom.play.errors import Refused, error_body
from seqloom.play.texts import Texts, require_known, stream, wait_while_connected


@final
class Completions:
    """What is answered under /v1."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._library = engine.library

    def routes(self) -> list[Route]:
        """The addresses."""
        return [
            Route("/v1/models", self.list_models),
            Route("/v1/models/{name:path}", self.show_model),
            Route("/v1/completions", self.complete, methods=["POST"]),
        ]

    def list_models(self, request: WebRequest) -> Response:
        """All models, in OpenAI's form."""
        self._library.find()
        return JSONResponse({"object": "list", "data": [_model_entry(name) for name in self._library.names]})

    async def show_model(self, request: WebRequest) -> Response:
        """One model, in OpenAI's form."""
        return JSONResponse(_model_entry(require_known(self._library, request.path_params["name"])))

    async def complete(self, request: WebRequest) -> Response:
        """Completions, in OpenAI's form."""
        asked = read_completion(await read_body(request))
        require_known(self._library, asked.model)
        if asked.stream:
            return await stream(self._stream_completion(asked))
        return JSONResponse(await wait_while_connected(request, self._whole_completion(asked)))

    async def _begin(self, texts: Texts, asked: Completion) -> Answer:
        """Asks for the texts of all prompts."""
        seed = random.randrange(LIMIT) if asked.seed is None else asked.seed % LIMIT
        models: list[Model] = []
        for prompt in prompts_of(asked):

            def build(model: Model, prompt: Any = prompt) -> Any:
                models.append(model)
                return requests_of(asked, prompt, model, seed)

            await texts.add(asked.model, asked.n or 1, build)
        return Answer(asked, models[0])

    async def _whole_completion(self, asked: Completion) -> dict[str, Any]:
        async with Texts(self._engine) as texts:
            answer = await self._begin(texts, asked)
            async for request, _, _ in texts.changes():
                _require_written(request.error)
            return answer.whole(texts.requests)

    async def _stream_completion(self, asked: Completion) -> AsyncIterator[str]:
        async with Texts(self._engine) as texts:
            answer = await self._begin(texts, asked)
            yield ""
            sent = dict.fromkeys(texts.requests, 0)
            offset = dict.fromkeys(texts.requests, 0)
            numbers = {request: index for index, request in enumerate(texts.requests)}
            async for request, count, ended in texts.changes():
                for token in request.tokens[sent[request] : count]:
                    yield _event(answer.piece(numbers[request], token, offset[request]))
                    offset[request] += len(token.text)
                sent[request] = count
                if request.error:
                    yield _event(error_body(request.error, 400))
                    return
                if ended:
                    yield _event(answer.last(numbers[request], request))
            if asked.stream_options is not None and asked.stream_options.include_usage:
                yield _event(answer.usage(texts.requests))
            yield "data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _model_entry(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "seqloom"}


def _require_written(error: str) -> None:
    if error:
        raise Refused(error)
