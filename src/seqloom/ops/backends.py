"""Which of its backends an op runs: by size unless told otherwise, and remembered, so that a run can say so.

with use(lag_sum="direct"): ...        # force a backend of one op
used()                                 # {"lag_sum": ["fft"]}: what ran since `forget()`
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch

from seqloom.core.config import near

_forced: dict[str, str] = {}
_used: dict[str, set[str]] = {}
_known: dict[str, tuple[str, ...]] = {}
_lacking: dict[str, Callable[[], dict[str, str]]] = {}


def declare(op: str, backends: tuple[str, ...], lacking: Callable[[], dict[str, str]] = dict) -> None:
    """Makes an op and its backends known, so that a typo in `use` is an error.

    `lacking` names those that this machine cannot run, and why.
    """
    _known[op], _lacking[op] = backends, lacking


def choose(op: str, by_size: str, able: Collection[str]) -> str:
    """The backend that `op` runs: the forced one, else `by_size`. ValueError if the forced one cannot do this call."""
    name = _forced.get(op, by_size)
    if name not in able:
        raise ValueError(f"backend {name!r} of {op} cannot do this; able are {', '.join(able)}")
    if not torch.compiler.is_compiling():
        _used.setdefault(op, set()).add(name)
    return name


def forced(op: str) -> str | None:
    """The backend that `use` forces for `op` here, if any."""
    return _forced.get(op)


@contextmanager
def use(**backends: str) -> Iterator[None]:
    """Forces a backend for each named op inside the block; ValueError for an unknown op or backend."""
    check(backends)
    before = dict(_forced)
    _forced.update(backends)
    try:
        yield
    finally:
        _forced.clear()
        _forced.update(before)


def check(backends: dict[str, str]) -> None:
    """Raises ValueError unless each named op has the backend wanted for it."""
    for op, name in backends.items():
        if op not in known():
            raise ValueError(f"unknown op {op!r}; {near(op, known())}")
        if name not in known()[op]:
            raise ValueError(f"op {op} has no backend {name!r}; {near(name, known()[op])}")


def known() -> dict[str, tuple[str, ...]]:
    """Every op that chooses, with its backends; each declares itself, and `seqloom.ops` imports them all."""
    return dict(_known)


def lacking(op: str) -> dict[str, str]:
    """The backends of `op` that cannot run on this machine, each with why."""
    return _lacking[op]()


def used() -> dict[str, list[str]]:
    """The backends that each op has run since the last `forget`, sorted by name."""
    return {op: sorted(names) for op, names in sorted(_used.items())}


def forget() -> None:
    """Empties what `used` remembers."""
    _used.clear()
