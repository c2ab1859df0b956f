"""`seqloom play`: models in the browser."""

from pathlib import Path
from typing import Annotated

import typer


def play(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="runs, comparisons, folders of runs or of transformers; default: runs")
    ] = None,
    port: Annotated[int, typer.Option(help="the port on this machine; 0 for any", min=0, max=65535)] = 8642,
    memory: Annotated[float, typer.Option(help="gigabytes that loaded models may take", min=0.001, max=100_000)] = 4.0,
    browser: Annotated[bool, typer.Option(help="open the page")] = True,
) -> None:
    """Opens a page in which models write side by side, and serves completions in OpenAI's form; for this machine."""
    try:
        from seqloom.play.serve import serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise ValueError(f"{error.name} is missing: pip install 'seqloom[play]'") from None

    serve(folders or [Path("runs")], port, int(memory * 1e9), browser=browser)
