"""What `/v1/completions` takes and gives, in OpenAI's form.

Taken: model, prompt (a text, ids, or several of either), max_tokens, temperature, top_p, n, stream, stream_options,
stop, seed, logprobs, presence_penalty, echo=false, best_of=n, user; and of ours top_k, min_p, repetition_penalty. What
would change the text and is not here is refused, not ignored.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final

from pydantic import Field

from seqloom.core.config import Config, read
from seqloom.core.model import Model
from seqloom.generation.decode import prompt_ids
from seqloom.generation.requests import Request, Token
from seqloom.generation.sample import Sampling
from seqloom.generation.several import sampling_of
from seqloom.generation.text import TextCutter, check_stop
from seqloom.play.errors import Refused

PROMPTS, SAMPLES, STOPS, TOKENS, STOP_LENGTH = 16, 16, 16, 16_384, 200
FINISHED = {"eos": "stop", "stop": "stop", "length": "length", "late": "length", "cancelled": "length"}
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty")
Prompt: TypeAlias = str | list[int]


@final
class StreamOptions(Config):
    """Options of a stream."""

    include_usage: bool = Field(False, description="a last piece with the counts of tokens")
    include_obfuscation: bool = Field(False, description="not used: nothing is padded")


@final
class Completion(Config):
    """The body of a request."""

    model: str = Field(max_length=1000, description="the name of a model, as /v1/models has it")
    prompt: str | list[Any] = Field(description="a text, ids, or several of either")
    max_tokens: int | None = Field(None, ge=1, le=TOKENS, description="largest number of tokens, 16 unless given")
    temperature: float | None = Field(None, ge=0, le=100, description="divides the logits")
    top_p: float | None = Field(None, gt=0, le=1, description="draws from the fewest tokens that reach it")
    n: int | None = Field(None, ge=1, le=SAMPLES, description="texts for each prompt")
    stream: bool | None = Field(None, description="whether pieces are sent as they are written")
    stream_options: StreamOptions | None = Field(None, description="options of a stream")
    stop: str | list[str] | None = Field(None, description="texts before which it ends")
    seed: int | None = Field(None, description="the same seed gives the same text; drawn unless given")
    logprobs: int | None = Field(None, ge=0, le=20, description="likeliest tokens that each comes with")
    presence_penalty: float | None = Field(None, ge=-2, le=2, description="subtracted for tokens written so far")
    frequency_penalty: Literal[0] | float | None = Field(None, description="0: there is none here")
    top_k: int | None = Field(None, ge=1, description="draws from the k likeliest tokens")
    min_p: float | None = Field(None, ge=0, le=1, description="least share of the largest probability")
    repetition_penalty: float | None = Field(None, gt=0, le=100, description="divides logits of tokens so far")
    echo: bool | None = Field(None, description="false: the prompt is not repeated")
    best_of: int | None = Field(None, description="n: all texts are given")
    suffix: str | None = Field(None, description="none: text is only continued")
    logit_bias: dict[str, float] | None = Field(None, description="none")
    user: str | None = Field(None, max_length=1000, description="not used")


def read_completion(body: dict[str, Any]) -> Completion:
    """The body of a request, checked. Refused for what is wrong, unknown, or not here."""
    try:
        asked: Completion = read(Completion, body)
        check_stop(stops_of(asked))
    except (ValueError, TypeError) as error:
        raise Refused(str(error)) from None
    for name, plain in (("frequency_penalty", 0), ("echo", False), ("suffix", ""), ("logit_bias", {})):
        value = getattr(asked, name)
        if value is not None and value != plain:
            raise Refused(f"{name} is not supported: leave it out")
    if asked.best_of not in (None, asked.n or 1):
        raise Refused("best_of is not supported: leave it out, or give as many as n")
    if asked.stream_options is not None and not asked.stream:
        raise Refused("stream_options are for a stream: leave them out, or add stream")
    stops = stops_of(asked)
    if len(stops) > STOPS or any(len(stop) > STOP_LENGTH for stop in stops):
        raise Refused(f"stop holds at most {STOPS} texts of at most {STOP_LENGTH} characters")
    prompts_of(asked)
    return asked


def stops_of(asked: Completion) -> list[str]:
    """The texts before which it ends."""
    return [asked.stop] if isinstance(asked.stop, str) else asked.stop or []


def prompts_of(asked: Completion) -> list[Prompt]:
    """The prompts. Refused where they are neither texts nor ids."""
    prompt = asked.prompt
    if isinstance(prompt, str) or (prompt and all(type(id) is int for id in prompt)):
        return [prompt]
    if not prompt or len(prompt) > PROMPTS:
        raise Refused(f"prompt holds 1 to {PROMPTS} texts, or lists of ids")
    for one in prompt:
        if not isinstance(one, str) and not (isinstance(one, list) and all(type(id) is int for id in one)):
            raise Refused("prompt is a text, a list of token ids, or a list of either")
    return list(prompt)


def requests_of(asked: Completion, prompt: Prompt, model: Model, seed: int) -> list[Request]:
    """The texts that one prompt is continued by, n of them. ValueError for a prompt that the model does not read."""
    settings = {name: getattr(asked, name) for name in SAMPLING if getattr(asked, name) is not None}
    sampling: Sampling = read(Sampling, {**settings, "seed": seed})
    ids = prompt_ids(model, prompt)
    eos = int(model.tokenizer.eos)
    return [
        Request(
            ids,
            asked.max_tokens or 16,
            sampling_of(sampling, number),
            eos,
            TextCutter(model.tokenizer, stops_of(asked), ids),
            asked.logprobs,
        )
        for number in range(asked.n or 1)
    ]


class Answer:
    """The form of the answers to one request; `index` numbers its texts over all prompts."""

    def __init__(self, asked: Completion, model: Model) -> None:
        self._asked = asked
        self._tokenizer = model.tokenizer
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": asked.model,
        }

    def piece(self, index: int, token: Token, offset: int) -> dict[str, Any]:
        """A token of a text that is streamed."""
        return {**self._head, "choices": [self._choice(index, token.text, [token], offset, None)]}

    def last(self, index: int, request: Request) -> dict[str, Any]:
        """The end of a text that is streamed."""
        return {**self._head, "choices": [self._choice(index, request.rest, [], 0, request)]}

    def whole(self, requests: Sequence[Request]) -> dict[str, Any]:
        """All texts at once."""
        choices = [
            self._choice(index, request.text, request.tokens, 0, request) for index, request in enumerate(requests)
        ]
        return {**self._head, "choices": choices, "usage": usage_of(requests)}

    def usage(self, requests: Sequence[Request]) -> dict[str, Any]:
        """The counts at the end of a stream."""
        return {**self._head, "choices": [], "usage": usage_of(requests)}

    def _choice(
        self, index: int, text: str, tokens: Sequence[Token], offset: int, ended: Request | None
    ) -> dict[str, Any]:
        logprobs = None if self._asked.logprobs is None else self._logprobs(tokens, offset)
        reason = None if ended is None or ended.end is None else FINISHED.get(ended.end, "stop")
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason}

    def _logprobs(self, tokens: Sequence[Token], offset: int) -> dict[str, Any]:
        offsets = []
        for token in tokens:
            offsets.append(offset)
            offset += len(token.text)
        names = [self._name(token.id) for token in tokens]
        top = [{self._name(id): log_p for id, log_p in token.others} for token in tokens]
        log_p = [token.log_p for token in tokens]
        return {"tokens": names, "token_logprobs": log_p, "top_logprobs": top, "text_offset": offsets}

    def _name(self, id: int) -> str:
        return str(self._tokenizer.decode([id]))


def usage_of(requests: Sequence[Request]) -> dict[str, int]:
    """The counts of tokens; a prompt of several texts counts once."""
    prompts = {id(request.prompt): len(request.prompt) for request in requests}
    written = sum(len(request.tokens) for request in requests)
    read = sum(prompts.values())
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
