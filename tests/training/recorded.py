"""CUDA graphs on a CPU, for tests: what is captured is recorded operation by operation, and replayed on its memory.

As on a GPU, a replay runs no Python of the step: each operation reads the memory that it read when it was recorded, and
writes to the memory that it wrote to. Reading a number while recording is an error, as it is there.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::is_nonzero", "aten::equal")
INDEXING = ("aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


def require_no_read(name: str, arguments: tuple[Any, ...]) -> None:
    """RuntimeError where an operation waits for the device: for a number, or for the size of its output."""
    by_mask = name in INDEXING and any(
        isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in arguments[1]
    )
    if name in READS or name.startswith("aten::_unique") or by_mask:
        raise RuntimeError(f"{name} reads from the device")


class NoReads(TorchDispatchMode):
    """Inside it, what reads from the device raises RuntimeError."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        require_no_read(func.name(), args)
        return func(*args, **(kwargs or {}))


@contextmanager
def no_reads() -> Iterator[None]:
    """Inside the block what waits for the device raises RuntimeError: reads, and numbers that are copied to it."""

    def read(self: Tensor, *_: Any, **__: Any) -> Any:
        raise RuntimeError("a tensor is read from the device")

    def copy(value: Any, *_: Any, **__: Any) -> Any:
        raise RuntimeError("a number is copied to the device")

    def unless_there(value: Any, *rest: Any, real: Any = torch.as_tensor, **named: Any) -> Any:
        return real(value, *rest, **named) if isinstance(value, Tensor) else copy(value)

    with pytest.MonkeyPatch.context() as patch, NoReads():
        for name in ("tolist", "numpy", "item", "__bool__", "__int__", "__float__"):
            patch.setattr(Tensor, name, read)
        for name, instead in {"tensor": copy, "from_numpy": copy, "as_tensor": unless_there}.items():
            patch.setattr(torch, name, instead)
        yield


class Recorder(TorchDispatchMode):
    """Runs operations and keeps what is needed to run them again."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, list[Tensor]]] = []
        self.made: dict[int, Tensor] = {}
        """what operations allocated, by its address"""
        self.before: list[tuple[Tensor, Tensor]] = []
        """other tensors that operations changed, and what they were"""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        require_no_read(func.name(), args)
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            others = [x for x in _tensors((args, kwargs)) if x.untyped_storage().data_ptr() not in self.made]
            self.before += [(tensor, tensor.detach().clone()) for tensor in others]
        known = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
        result = func(*args, **kwargs)
        outputs = _tensors(result)
        fresh = [tensor for tensor in outputs if tensor.untyped_storage().data_ptr() not in known]
        for tensor in fresh:
            self.made[tensor.untyped_storage().data_ptr()] = tensor
        if fresh or func._schema.is_mutable:  # others are views
            self.calls.append((func, args, kwargs, outputs if fresh else []))
        return result


class Graph:
    """In place of torch.cuda.CUDAGraph."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.replays = 0

    def replay(self) -> None:
        """Runs what was recorded, after all memory that it allocated was overwritten."""
        self.replays += 1
        with torch.no_grad(), warnings.catch_warnings():
            for tensor in self.recorder.made.values():
                poison(tensor)
            for func, args, kwargs, outputs in self.recorder.calls:
                again = _tensors(func(*args, **kwargs))
                for output, value in zip(outputs, again, strict=True) if outputs else ():
                    output.copy_(value)


class Event:
    """In place of torch.cuda.Event."""

    def __init__(self, enable_timing: bool = False) -> None:
        pass

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: Any) -> float:
        return 1.0


class Stream:
    """In place of torch.cuda.Stream."""

    def wait_stream(self, other: Any) -> None:
        pass


@contextmanager
def _recorded(graph: Graph, capture_error_mode: str = "global") -> Iterator[None]:
    assert not graph.recorder.calls, "a graph is recorded once"
    try:
        with graph.recorder:
            yield
    finally:
        with torch.no_grad():  # a capture computes nothing
            for tensor, value in reversed(graph.recorder.before):
                tensor.copy_(value)


def on_a_cpu(patch: pytest.MonkeyPatch) -> None:
    """Puts this file's graphs in place of CUDA's, for tensors on a CPU."""
    for module in ("training.capturable", "training.captured", "training.session", "evaluation.replayed"):
        patch.setattr(f"seqloom.{module}.takes_graphs", lambda device: True)
    replaced: dict[str, Callable[..., Any]] = {
        "CUDAGraph": Graph,
        "graph": _recorded,
        "Event": Event,
        "Stream": Stream,
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
        "current_stream": Stream,
    }
    for name, instead in replaced.items():
        patch.setattr(torch.cuda, name, instead)


def poison(tensor: Tensor) -> None:
    """Overwrites a tensor with what shows in every result: NaN, or ids that no embedding has."""
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(float("nan"))
    else:
        tensor.fill_(True if tensor.dtype == torch.bool else torch.iinfo(tensor.dtype).max)


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
