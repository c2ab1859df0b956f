"""Errors in OpenAI's form, each one line: {"error": {"message", "type", "param", "code"}}."""

from typing import final

from starlette.responses import JSONResponse


@final
class Refused(Exception):
    """A request that is not answered, with its status."""

    def __init__(self, message: str, status: int = 400, retry: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry = retry
        """seconds after which it may be asked again"""


def error_body(message: str, status: int) -> dict[str, object]:
    """What is sent for an error."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    line = " ".join(message.split())[:500]
    return {"error": {"message": line, "type": kind, "param": None, "code": None}}


def error_response(error: Refused) -> JSONResponse:
    """The response to a request that is refused."""
    headers = {} if error.retry is None else {"Retry-After": str(error.retry)}
    return JSONResponse(error_body(str(error), error.status), error.status, headers)
