"""Work on a GPU as a CUDA graph, which the host launches as a whole: warmed up on a stream of its own, then recorded.

A graph reads and writes the memory that it was recorded with. What it computes is what the same code computes without
it, bit for bit, as long as the code reads nothing from the device.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar, final

import torch
from torch import Tensor

T = TypeVar("T")
_kept: ContextVar[list[object] | None] = ContextVar("seqloom_kept", default=None)
_wanted: ContextVar[bool] = ContextVar("seqloom_graphs_wanted", default=True)
WARM_UP = 3
"""runs before the recording, in which kernels are chosen, tuned and cached"""


def takes_graphs(device: torch.device) -> bool:
    """Whether work on this device can be recorded as a graph."""
    return device.type == "cuda"


def graphs_wanted() -> bool:
    """Whether work may be recorded here."""
    return _wanted.get()


@contextmanager
def graphs(wanted: bool) -> Iterator[None]:
    """Inside the block work is recorded only if graphs are `wanted`."""
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


def warm_up(work: Callable[[], object]) -> None:
    """Does the work `WARM_UP` times, on a stream of its own; the current stream waits for it, also where it fails."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                work()
    finally:
        torch.cuda.current_stream().wait_stream(side)


@final
@dataclass(frozen=True)
class Recorded(Generic[T]):
    """Work as a graph, which has not run yet, and its result, which each replay fills."""

    graph: torch.cuda.CUDAGraph
    result: T
    kept: list[object]
    """what the graph reads and only caches hold besides"""

    def replay(self) -> None:
        """Does the work again, on the memory that it was recorded with."""
        self.graph.replay()


def record(work: Callable[[], T]) -> Recorded[T]:
    """Records the work. Other threads may use the GPU meanwhile, such as one that pins batches.

    RuntimeError where it cannot be recorded.
    """
    graph = torch.cuda.CUDAGraph()
    kept: list[object] = []
    token = _kept.set(kept)
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            result = work()
    finally:
        _kept.reset(token)
    return Recorded(graph, result, kept)


def keep(value: T) -> T:
    """The value, from a cache that may drop it: a recording that is being made holds it as long as there is the graph.

    Autograd runs the backward of work on a GPU in a thread of its own, where this is unknown: a backward reads what its
    forward has kept too.
    """
    kept = _kept.get()
    if kept is not None:
        kept.append(value)
    return value


def fill(buffers: Iterable[Tensor], tensors: Iterable[Tensor]) -> None:
    """Copies tensors into buffers of their shapes, without waiting where they are pinned."""
    for buffer, tensor in zip(buffers, tensors, strict=True):
        assert tensor.shape == buffer.shape, "what is replayed has one shape"
        buffer.copy_(tensor, non_blocking=True)


def reason(error: RuntimeError) -> str:
    """The first line of an error that a recording ended with, for a line that says it.

    Of errors that followed each other it is the first, since ending a recording that failed is an error too.
    """
    while isinstance(error.__context__, RuntimeError):
        error = error.__context__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
