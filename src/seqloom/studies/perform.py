"""Runs one cell in this process and saves its rows, or says in one line why it failed."""

import sys
from pathlib import Path

from seqloom.analysis.origin import origin
from seqloom.core.progress import Say, Show, show_nothing
from seqloom.runs.layout import make_inside
from seqloom.studies.results import save
from seqloom.studies.study import Cell, Stopped


def reason(error: BaseException) -> str:
    """The reason why a cell failed, in one line."""
    if of_memory(error):
        return "out of memory: choose a smaller model or batch, or fewer --jobs"
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        why = f"{error.filename}: {why}" if error.filename else why
    else:
        why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return " ".join(why.split())


def of_memory(error: BaseException) -> bool:
    """Whether the error is of exhausted memory: Python's, or torch's for the CPU or a GPU."""
    from_torch = "can't allocate memory" in str(error) or type(error).__name__ == "OutOfMemoryError"
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and from_torch)


def perform(cell: Cell, out: Path, command: str, say: Say, show: Show) -> None:
    """Runs a cell in this process and saves its rows."""
    folder = make_inside(out, cell.name)
    try:
        rows = cell.run(folder, say, show)
    except Stopped as stopped:
        if stopped.rows is not None:
            save(folder, cell, stopped.rows, origin(command))
            cell.tidy(folder)
        raise
    save(folder, cell, rows, origin(command))
    cell.tidy(folder)


def work(cell: Cell, out: str, command: str) -> int:
    """Runs a cell without a progress bar, and returns the exit code; the process that started it reads its rows."""
    try:
        perform(cell, Path(out), command, print_line, show_nothing)
    except Stopped as stopped:
        return stopped.code
    return 0


def print_line(line: str) -> None:
    """Prints a line to standard error at once."""
    print(line, file=sys.stderr, flush=True)
