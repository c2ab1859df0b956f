"""Starts modules in Python processes of their own, which import nothing from the current folder by accident.

`python -m` puts the current folder before Python's own modules, so that a `pickle.py` that lies there, in a folder of
somebody else's files, would be run. A child gets the path of this process instead, with the current folder last.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = Path(__file__).parents[2]
"""the folder that this package lies in"""
SAFE = "PYTHONSAFEPATH"
"""the environment's name of Python's option -P"""


def module_words(module: str, *words: str) -> list[str]:
    """The arguments of Python (`sys.executable`) that run a module with `words` as its own arguments."""
    path = f"import sys; sys.path[:] = {import_path()!r}"  # `sys` is built in: it is in no folder
    run = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return ["-P", "-c", f"{path}; {run}", *words]


@contextmanager
def safe_path() -> Iterator[None]:
    """Within the block, Python processes that another library starts do not import from the current folder."""
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE]
        else:
            os.environ[SAFE] = before


def import_path() -> list[str]:
    """The folders that this process imports from, as absolute paths, for another process.

    The current folder, if it is one of them, comes after all others, unless this package itself lies there.
    """
    here = os.path.realpath(os.curdir)
    paths = [os.path.abspath(path) for path in sys.path]
    current = [path for path in paths if os.path.realpath(path) == here]
    if here == os.path.realpath(PACKAGES):
        return paths
    return [*(path for path in paths if path not in current), *current[:1]]
