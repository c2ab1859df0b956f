"""Paths that exist and are not regular files."""

import os
import socket
from pathlib import Path

KINDS = ("a FIFO", "a socket", "a device")


def special(path: Path, kind: str) -> None:
    """Makes one of the kinds at a path; that of a socket must be short."""
    match kind:
        case "a FIFO":
            os.mkfifo(path)
        case "a socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        case "a device":
            path.symlink_to("/dev/zero")


def hostile_modules(folder: Path) -> None:
    """Makes files with the names of Python's own modules, each of which makes the file `ran` when it is imported."""
    for name in ("pickle", "statistics", "argparse", "signal", "subprocess", "json", "csv", "dataclasses"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\nraise SystemExit(9)\n")
