"""Serves the page on this machine until it is interrupted."""

import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from seqloom.play.app import build_app
from seqloom.play.engine import Engine
from seqloom.play.library import Library, require_folders

HOST = "127.0.0.1"
CONNECTIONS = 256
"""the most at once; others are answered 503"""


def serve(folders: Sequence[Path], port: int, memory: int, *, browser: bool, live: bool = False) -> None:
    """Finds models, prints the address, opens a browser if asked to, and answers until Ctrl-C.

    `memory` is the most bytes of loaded models. The address of a `live` page is that of its losses, and its models may
    come later. FileNotFoundError where no model is found otherwise, ValueError for a port that is taken.
    """
    require_folders(folders, empty=live)
    listening = bind(port)
    port = listening.getsockname()[1]
    library = Library(folders, memory)
    engine = Engine(library)
    config = uvicorn.Config(
        build_app(engine, port),
        log_level="error",
        lifespan="off",
        ws="none",
        limit_concurrency=CONNECTIONS,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    count = len(library.names)
    address = f"http://{HOST}:{port}"
    page = f"{address}/#live" if live else address
    print(f"{count} model{'s' * (count != 1)} at {page} (Ctrl-C ends it)", flush=True)
    print(f"completions in OpenAI's form: {address}/v1", file=sys.stderr, flush=True)
    if browser:
        threading.Thread(target=open_page, args=(page,), daemon=True).start()
    engine.start()
    try:
        uvicorn.Server(config).run([listening])
    finally:
        engine.close()
        listening.close()


def open_page(address: str) -> None:
    """Opens the page in a browser, or says in a line that there is none."""
    try:
        opened = webbrowser.open(address)
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        print(f"no browser was found: open {address} in one", file=sys.stderr, flush=True)


def bind(port: int) -> socket.socket:
    """A socket on this machine alone. ValueError where the port is taken or not allowed."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise ValueError(f"port {port} cannot be used ({reason}): choose another with --port, or 0 for any") from None
    return listening
