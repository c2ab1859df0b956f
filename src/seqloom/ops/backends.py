"""Chooses the backend of an op: the one that its rule picks, unless a block around the call forces another.

    with use(lag_sum="direct"): ...         # forces a backend of one op
    with recorded() as ran: ...             # ran == {"lag_sum": ["direct"]}: what each op ran inside the block

Both are context variables, which other threads and tasks do not see. An op reads them once per call. The backward pass
may run in another thread; ops that it calls use the backends that were forced in forward (`forced_backends`,
`restore_backends`), and activation checkpointing uses `checkpoint_contexts`. A compiled or exported graph keeps the
backends with which it was captured.
"""

from bisect import insort
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from seqloom.core.config import suggestion
from seqloom.core.graphs import constant
from seqloom.ops import load_ops

if TYPE_CHECKING:
    from seqloom.ops.op import Op

Forced: TypeAlias = Mapping[str, str]
"""backends by the name of their op"""


class _Context(NamedTuple):
    """The forced backends and the recorders around a call, in one context variable, so that a call has one look-up."""

    forced: Forced
    records: tuple[dict[str, list[str]], ...]


_NOTHING = _Context(MappingProxyType({}), ())
_here: ContextVar[_Context] = ContextVar("seqloom_backends", default=_NOTHING)
_ops: dict[str, "Op"] = {}


def register(op: "Op") -> None:
    """Adds an op to the registry; `Op` calls it."""
    _ops[op.name] = op


def ops() -> "dict[str, Op]":
    """All ops by name, all of whose modules it imports."""
    load_ops()
    return {name: _ops[name] for name in sorted(_ops)}


@constant
def choice(op: str, by_size: str) -> str:
    """The backend that `use` forces for `op` here, else `by_size`; it is recorded."""
    context = _here.get()
    name = context.forced.get(op, by_size)
    for record in context.records:
        names = record.setdefault(op, [])
        if name not in names:
            insort(names, name)
    return name


@constant
def forced_backend(op: str) -> str | None:
    """The backend that `use` forces for `op` here, if any."""
    return _here.get().forced.get(op)


@contextmanager
def use(**backends: str) -> Iterator[None]:
    """Forces a backend for each named op inside the block; ValueError for an unknown op or backend."""
    check(backends)
    with restore_backends({**_here.get().forced, **backends}):
        yield


@contextmanager
def record_backends() -> Iterator[dict[str, list[str]]]:
    """Yields a dict that collects the backends that ops choose inside the block, by op; outer blocks collect them too.

    A compiled graph chooses its backends when it is captured, not when it runs.
    """
    ran: dict[str, list[str]] = {}
    here = _here.get()
    token = _here.set(here._replace(records=(*here.records, ran)))
    try:
        yield ran
    finally:
        _here.reset(token)


def forced_backends() -> Forced:
    """The backends that are forced here; a forward pass saves them, and its backward pass restores them."""
    return _here.get().forced


@contextmanager
def restore_backends(forced: Forced) -> Iterator[None]:
    """Forces exactly the backends that `forced_backends` returned inside the block."""
    token = _here.set(_here.get()._replace(forced=forced))
    try:
        yield
    finally:
        _here.reset(token)


def checkpoint_contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The `context_fn` of `torch.utils.checkpoint.checkpoint`: recomputation runs the backends of the forward."""
    return nullcontext(), restore_backends(forced_backends())


def check(backends: dict[str, str]) -> None:
    """Raises ValueError unless every named op exists and has the backend given for it."""
    for op, name in backends.items():
        named = _ops.get(op) or ops().get(op)
        if named is None:
            raise ValueError(f"unknown op {op!r}; {suggestion(op, known_backends())}")
        if name not in named.backends:
            raise ValueError(f"op {op} has no backend {name!r}; {suggestion(name, named.backends)}")


def known_backends() -> dict[str, tuple[str, ...]]:
    """The names of the backends of every op."""
    return {name: tuple(op.backends) for name, op in ops().items()}


def unavailable(op: str) -> dict[str, str]:
    """The backends of `op` that cannot run on this machine, with the reasons."""
    return ops()[op].unavailable()
