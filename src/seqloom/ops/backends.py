"""Which of its backends an op runs: the one that it chooses by size, unless the block around the call forces another.

    with use(lag_sum="direct"): ...         # forces a backend of one op
    with recorded() as ran: ...             # ran == {"lag_sum": ["direct"]}: what each op ran inside the block

Both are context variables, so that other threads and tasks do not see them. An op reads them once, at its call. Its
backward may run in another thread: what an op chooses there, it chooses by what was forced around its forward
(`captured`, `restored`); for activation checkpointing there is `checkpoint_contexts`. A compiled or exported graph
keeps the backends that it was captured with, whatever is forced around it later.
"""

from bisect import insort
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seqloom.core.config import near
from seqloom.core.graphs import constant

if TYPE_CHECKING:
    from seqloom.ops.op import Op

Forced: TypeAlias = Mapping[str, str]
"""backends by the name of their op"""


class _Here(NamedTuple):
    """What holds around a call: one variable, so that a call looks it up once."""

    forced: Forced
    records: tuple[dict[str, list[str]], ...]


_NOTHING = _Here(MappingProxyType({}), ())
_here: ContextVar[_Here] = ContextVar("seqloom_backends", default=_NOTHING)
_ops: dict[str, "Op"] = {}


def register(op: "Op") -> None:
    """Makes an op and its backends known; each op does so itself."""
    _ops[op.name] = op


def ops() -> "dict[str, Op]":
    """Every op by its name; `seqloom.ops` imports them all."""
    return dict(_ops)


@constant
def choice(op: str, by_size: str) -> str:
    """The backend that `use` forces for `op` here, else `by_size`; it is recorded."""
    here = _here.get()
    name = here.forced.get(op, by_size)
    for ran in here.records:
        names = ran.setdefault(op, [])
        if name not in names:
            insort(names, name)
    return name


@constant
def forced(op: str) -> str | None:
    """The backend that `use` forces for `op` here, if any."""
    return _here.get().forced.get(op)


@contextmanager
def use(**backends: str) -> Iterator[None]:
    """Forces a backend for each named op inside the block; ValueError for an unknown op or backend."""
    check(backends)
    with restored({**_here.get().forced, **backends}):
        yield


@contextmanager
def recorded() -> Iterator[dict[str, list[str]]]:
    """The backends that each op chooses inside the block, sorted by name; blocks around it get them too.

    A compiled graph chooses when it is captured, not when it runs.
    """
    ran: dict[str, list[str]] = {}
    here = _here.get()
    token = _here.set(here._replace(records=(*here.records, ran)))
    try:
        yield ran
    finally:
        _here.reset(token)


def captured() -> Forced:
    """What is forced here: for a forward to save, and its backward to restore."""
    return _here.get().forced


@contextmanager
def restored(forced: Forced) -> Iterator[None]:
    """Inside the block exactly what was `captured` is forced, and nothing else."""
    token = _here.set(_here.get()._replace(forced=forced))
    try:
        yield
    finally:
        _here.reset(token)


def checkpoint_contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The `context_fn` of `torch.utils.checkpoint.checkpoint`: recomputation runs the backends of the forward."""
    return nullcontext(), restored(captured())


def check(backends: dict[str, str]) -> None:
    """Raises ValueError unless each named op has the backend wanted for it."""
    for op, name in backends.items():
        if op not in known():
            raise ValueError(f"unknown op {op!r}; {near(op, known())}")
        if name not in known()[op]:
            raise ValueError(f"op {op} has no backend {name!r}; {near(name, known()[op])}")


def known() -> dict[str, tuple[str, ...]]:
    """The names of each op's backends."""
    return {name: tuple(op.backends) for name, op in _ops.items()}


def lacking(op: str) -> dict[str, str]:
    """The backends of `op` that cannot run on this machine, each with why."""
    return _ops[op].lacking()
