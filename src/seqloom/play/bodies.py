"""The bodies of requests: JSON of a bounded size, read strictly."""

import asyncio
import json
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from seqloom.play.errors import Refused

LARGEST = 1 << 20
"""the most bytes of a body"""
SECONDS = 20.0
"""in which a body has to come"""


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object of a request. Refused where it is none, or too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused("the body is JSON: send it with Content-Type: application/json", 415)
    try:
        data = await asyncio.wait_for(_read_bytes(request), SECONDS)
    except ClientDisconnect:
        raise Refused("the connection was closed before the body was complete") from None
    except TimeoutError:
        raise Refused(f"the body did not come within {SECONDS:g} seconds", 408) from None
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Refused("the body is not JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise Refused('the body is a JSON object, such as {"model": …, "prompt": …}')
    _require_text(body)
    return body


async def _read_bytes(request: Request) -> bytes:
    """The whole body. Refused where it is too large."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST:
            raise Refused(f"the body is larger than {LARGEST:,} bytes", 413)
    return data


def _require_text(value: Any) -> None:
    """Refused where a string is half a character, which no text can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError):
        raise Refused("a string of the body is not valid Unicode, or the body is nested too deeply") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
