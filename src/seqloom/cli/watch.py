"""`seqloom watch`: losses of trainings in the browser, while they run."""

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.play import MEMORY, PORT, Browser, Memory, Port, require_server


def watch(
    folders: Annotated[list[Path] | None, typer.Argument(help="runs, or folders of runs; default: runs")] = None,
    port: Port = PORT,
    memory: Memory = MEMORY,
    browser: Browser = True,
) -> None:
    """Opens the page of `seqloom play` where it draws the losses of trainings; runs may begin later."""
    require_server()
    from seqloom.play.serve import serve

    serve(folders or [Path("runs")], port, int(memory * 1e9), browser=browser, live=True)
