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
