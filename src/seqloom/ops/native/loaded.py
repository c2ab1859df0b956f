"""The libraries of this process, which are found or compiled at their first use; the result is cached."""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from seqloom.ops.native import compiler, kept
from seqloom.ops.native.compiler import Unavailable

OFF, ELSEWHERE = "SEQLOOM_NATIVE=0", "only on Linux"
_found: dict[Path, ctypes.CDLL | str] = {}
_lock = threading.Lock()
_forgotten: list[Callable[[], None]] = []


def library(source: Path) -> ctypes.CDLL | None:
    """The library of a C source, compiled if it is not in the cache; None where that fails.

    The result, a failure too, is remembered until `forget` is called.
    """
    loaded = _found.get(source) or _look(source)
    return None if isinstance(loaded, str) else loaded


def why(source: Path) -> str:
    """The reason why there is no library of this source, in a few words; "" if there is one."""
    loaded = _look(source)
    return loaded if isinstance(loaded, str) else ""


def forget() -> None:
    """Forgets all results, so that the next call looks again. Loaded libraries stay loaded."""
    _found.clear()
    for clear in _forgotten:
        clear()


def on_forget(clear: Callable[[], None]) -> None:
    """Registers a function that `forget` calls, for modules that cache something about a library."""
    _forgotten.append(clear)


def _look(source: Path) -> ctypes.CDLL | str:
    if (loaded := _found.get(source)) is not None:
        return loaded
    with _lock:
        if source not in _found:
            try:
                _found[source] = _made(source)
            except Unavailable as reason:
                _say(str(reason))
                _found[source] = str(reason)
        return _found[source]


def _say(reason: str) -> None:
    """Prints once why the portable code runs, unless the user turned native code off."""
    if reason not in (OFF, ELSEWHERE) and not any(isinstance(other, str) for other in _found.values()):
        print(f"seqloom: the portable code runs, as there is no native code: {reason}", file=sys.stderr)


def _made(source: Path) -> ctypes.CDLL:
    if os.environ.get("SEQLOOM_NATIVE") == "0":
        raise Unavailable(OFF)
    if sys.platform != "linux":
        raise Unavailable(ELSEWHERE)
    command = compiler.find()
    path = kept.folder() / f"{source.stem}-{compiler.key(source, command)[:32]}.so"
    made = kept.load(path)
    if made is None:
        began = time.perf_counter()
        kept.keep(path, lambda part: compiler.compile_to(part, source, command))
        took = time.perf_counter() - began
        message = f"compiled {source.name} for this CPU in {took:.1f} s; SEQLOOM_NATIVE=0 turns native code off"
        print(f"seqloom: {message}", file=sys.stderr)
        made = kept.load(path)
    if made is None:
        raise Unavailable(f"the cache {path.parent} does not keep what is written to it")
    return made


def _renew() -> None:
    global _lock  # noqa: PLW0603  # a thread that held it does not live on in a forked process
    _lock = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_renew)
