"""`seqloom play`: models in the browser."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

Port = Annotated[int, typer.Option(help="the port on this machine; 0 for any", min=0, max=65535)]
Memory = Annotated[float, typer.Option(help="gigabytes that loaded models may take", min=0.001, max=100_000)]
Browser = Annotated[bool, typer.Option(help="open the page")]
PORT = 8642
MEMORY = 4.0


def play(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="runs, comparisons, folders of runs or of transformers; default: models that come with it"),
    ] = None,
    port: Port = PORT,
    memory: Memory = MEMORY,
    browser: Browser = True,
) -> None:
    """Opens a page in which models write side by side, and serves completions in OpenAI's form; for this machine.

    `seqloom watch RUNS` opens the same page where it draws the losses of trainings.
    """
    require_server()
    from seqloom.play.library import carried_models
    from seqloom.play.serve import serve

    serve(folders or carried_models(), port, int(memory * 1e9), browser=browser)


def require_server() -> None:
    """ValueError, in one line, where a package is missing."""
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise ValueError(f"{name} is missing: pip install 'seqloom[play]'")
