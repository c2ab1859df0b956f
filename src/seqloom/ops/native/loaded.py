"""The libraries of this process, which are found or compiled at their first use; the result is cached."""

import ctypes
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path

from seqloom.ops.native import compiler, store
from seqloom.ops.native.compiler import Unavailable

OPS = Path(__file__).parents[1]
OFF, ELSEWHERE = "SEQLOOM_NATIVE=0", "only on Linux"
_libraries: dict[Path, ctypes.CDLL | str] = {}
_lock = threading.Lock()
_callbacks: list[Callable[[], None]] = []
_needed: dict[Path, set[str]] = {}
"""names of the functions that are called, by the source that has them"""
_only_looks: ContextVar[bool] = ContextVar("seqloom_only_looks", default=False)
"""whether `why` compiles nothing"""


def library(source: Path) -> ctypes.CDLL | None:
    """The library of a C source, compiled if it is not in the cache; None where that fails.

    The result, a failure too, is remembered until `forget` is called.
    """
    loaded = _libraries.get(source) or _find(source)
    return None if isinstance(loaded, str) else loaded


def why(source: Path) -> str:
    """The reason why there is no library of this source, in a few words; "" if there is one."""
    loaded = _obstacle() if _only_looks.get() and source not in _libraries else _find(source)
    return loaded if isinstance(loaded, str) else ""


@contextmanager
def without_compiling() -> Iterator[None]:
    """Inside the block `why` compiles nothing: a source that was not used yet has a library if there is a compiler."""
    token = _only_looks.set(True)
    try:
        yield
    finally:
        _only_looks.reset(token)


def count_compiled() -> tuple[int, int]:
    """How many of the declared sources are libraries in the cache, and how many there are. Compiles nothing."""
    try:
        command = compiler.find()
        paths = [_path(source, command) for source in _needed]
    except Unavailable:
        return 0, len(_needed)
    return sum(path.is_file() for path in paths), len(paths)


def forget() -> None:
    """Forgets all results, so that the next call looks again. Loaded libraries stay loaded."""
    _libraries.clear()
    for clear in _callbacks:
        clear()


def expect(source: Path, names: Iterable[str]) -> None:
    """Notes functions that the library of a source must have. A library without one counts as not available."""
    _needed.setdefault(source, set()).update(names)


def on_forget(clear: Callable[[], None]) -> None:
    """Registers a function that `forget` calls, for modules that cache something about a library."""
    _callbacks.append(clear)


def _find(source: Path) -> ctypes.CDLL | str:
    """The library, or the reason why there is none; compiled at the first call."""
    if (loaded := _libraries.get(source)) is not None:
        return loaded
    with _lock:
        if source not in _libraries:
            try:
                _libraries[source] = _load_library(source)
            except Unavailable as reason:
                _print_reason(str(reason))
                _libraries[source] = str(reason)
        return _libraries[source]


def _print_reason(reason: str) -> None:
    """Prints why the portable code runs, once per process, unless native code is turned off or not for this system."""
    if reason not in (OFF, ELSEWHERE) and not any(isinstance(other, str) for other in _libraries.values()):
        print(f"seqloom: the portable code runs, as there is no native code: {reason}", file=sys.stderr)


def _compiler() -> list[str]:
    """The command of the compiler. Unavailable where native code is turned off or there is none."""
    if os.environ.get("SEQLOOM_NATIVE") == "0":
        raise Unavailable(OFF)
    if sys.platform != "linux":
        raise Unavailable(ELSEWHERE)
    return compiler.find()


def _obstacle() -> str:
    """The reason why no source can become a library here, as far as it is known without compiling; "" for none."""
    try:
        _compiler()
    except Unavailable as reason:
        return str(reason)
    return ""


def _path(source: Path, command: list[str]) -> Path:
    return store.folder() / f"{source.stem}-{compiler.key(source, command)[:32]}.so"


def _load_library(source: Path) -> ctypes.CDLL:
    """The library from the cache, compiled first if it is not there. Unavailable where that fails."""
    command = _compiler()
    path = _path(source, command)
    loaded = store.load(path)
    if loaded is None:
        _compile([source, *_others_missing(source, command)], command)
        loaded = store.load(path)
    if loaded is None:
        raise Unavailable(f"the cache {path.parent} does not keep what is written to it")
    for name in sorted(_needed.get(source, ())):
        if not has_function(loaded, name):
            raise Unavailable(f"{command[0]} made a library of {source.name} that lacks {name}")
    return loaded


def _compile(sources: list[Path], command: list[str]) -> None:
    """Compiles sources at once, and says so. Unavailable where the first fails; another one may be tried again."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(sources)) as pool:
        first, *others = [pool.submit(_compile_one, source, command, source != sources[0]) for source in sources]
    names = [source.name for source, job in zip(sources[1:], others, strict=True) if not job.exception()]
    first.result()
    took = time.perf_counter() - began
    message = f"compiled {', '.join([sources[0].name, *names])} for this CPU in {took:.1f} s"
    print(f"seqloom: {message}; SEQLOOM_NATIVE=0 turns native code off", file=sys.stderr)


def _compile_one(source: Path, command: list[str], ahead: bool) -> None:
    """Compiles a source; `ahead` of its use it takes the time that no other process wants."""
    patient = ["nice", *command] if ahead and shutil.which("nice") else command
    store.save(_path(source, command), lambda part: compiler.compile_to(part, source, patient))


def _others_missing(source: Path, command: list[str]) -> list[Path]:
    """Sources of ops that are not compiled either, one for each other core, those of the same op first."""
    if OPS not in source.parents:
        return []
    cores = len(os.sched_getaffinity(0))
    near = sorted(_needed, key=lambda other: (-len(os.path.commonpath([source, other])), other))
    others = (other for other in near if other != source and OPS in other.parents)
    return list(islice((other for other in others if not _path(other, command).is_file()), cores - 1))


def has_function(library: ctypes.CDLL, name: str) -> bool:
    """Whether a library has a function of this name."""
    try:
        library[name]
    except AttributeError:
        return False
    return True


def _new_lock() -> None:
    global _lock  # noqa: PLW0603  # a thread that held it does not live on in a forked process
    _lock = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_new_lock)
