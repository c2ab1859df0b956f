"""Who may ask: pages of this server and programs of this machine, by their Host and Origin; and what a page may do.

A page of another site can send requests to 127.0.0.1, and by a name that resolves to it read the answers. Both show in
the two headers, which a browser sets itself.
"""

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqloom.play.errors import Refused, error_response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'none'"
)
"""of a report, which holds its own script and style"""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses other hosts and origins, and adds the headers of `HEADERS` to each answer."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what may be asked."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if headers.get("host", "").lower() not in self._hosts:
            refused = Refused("this server answers on this machine alone: open the address that it printed", 403)
        elif origin is not None and origin not in self._origins:
            refused = Refused("pages of other sites may not ask this server", 403)
        else:
            await self._app(scope, receive, send_with_headers)
            return
        await error_response(refused)(scope, receive, send_with_headers)


def hosts_of(port: int) -> list[str]:
    """The names of this machine, with the port."""
    return [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
