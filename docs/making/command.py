"""What the commands of this folder share: the lines that they print, and exit code 2 with one line for an error."""

import sys
from collections.abc import Callable, Iterable


def exit_code(work: Callable[[], Iterable[str]]) -> int:
    """Prints the lines of `work` as they come; returns the exit code, 2 after a ValueError or OSError."""
    try:
        for line in work():
            print(line)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0
