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
from seqloom.play.library import Library, find_models, find_reports

HOST = "127.0.0.1"
CONNECTIONS = 256
"""the most at once; others are answered 503"""


def serve(folders: Sequence[Path], port: int, memory: int, *, browser: bool) -> None:
    """Finds models, prints the address, opens a browser if asked to, and answers until Ctrl-C.

    `memory` is the most bytes of loaded models. FileNotFoundError where no model is found, ValueError for a port that
    is taken.
    """
    models = find_models(folders)
    listening = bind(port)
    port = listening.getsockname()[1]
    engine = Engine(Library(models, memory, find_reports(folders)))
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
    address = f"http://{HOST}:{port}"
    print(f"{len(models)} model{'s' * (len(models) != 1)} at {address} (Ctrl-C ends it)", flush=True)
    print(f"completions in OpenAI's form: {address}/v1", file=sys.stderr, flush=True)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    engine.start()
    try:
        uvicorn.Server(config).run([listening])
    finally:
        engine.close()
        listening.close()


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
