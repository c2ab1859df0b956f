"""The C source of an op as one declaration: its functions, why it may be missing, and its operators of torch.

    KERNEL = Kernel("small_blocks", Path(__file__).with_name("blocks.c"))
    APPLY = KERNEL.function("apply_all", "threads B R D n", "x(B R D, x_step) w(n D)", makes="y(B R D)")
    y = APPLY(x, w, threads=1)                      # checks x and w, allocates y, and calls C

A tensor is declared as name(sizes), followed by its dtype, if that is not the one that all share, by the name of its
step (`x_step`), if its tokens may be apart, and by `written`, if C writes into it: name(sizes, float64, written). A `?`
after the name of an argument says that it may be None. `dz?z(sizes)` is made only where the argument z is given, or the
number z is not 0.
C gets the numbers, then the steps, the arguments, what it makes, and its scratch memory.
"""

import ctypes
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import Operator, differentiate, pair_operators
from seqloom.ops.native import WORD, Argument, NativeFunction

_DTYPES = {
    "float64": torch.float64,
    "complex128": torch.complex128,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
}
_TENSOR = re.compile(r"(\w+)(\?\w*)?\(([^,)]*)((?:, \w+)*)\)")


@final
class Kernel:
    """A C source. `integer` is the type of its numbers, `least` names those that must be at least 1."""

    def __init__(
        self,
        op: str,
        source: Path,
        *,
        least: str = "threads",
        integer: Any = ctypes.c_int,
        words: dict[torch.dtype, str] = WORD,
        backend: str = "native",
    ) -> None:
        self.op = op
        self.source = source
        self._least = least
        self._integer = integer
        self._words = words
        self._backend = backend

    @constant
    def available(self) -> bool:
        """Whether there is native code on this machine; the first call compiles it."""
        return native.library(self.source) is not None

    def unavailable(self) -> dict[str, str]:
        """The backend with the reason why it is not available; empty where it is."""
        return native.unavailable(self._backend, self.source)

    def size(self, name: str, dtype: torch.dtype, *sizes: int) -> int:
        """The size of the scratch memory of a function, from the function `name` of C for tensors of this dtype."""
        for size in sizes:
            if isinstance(size, torch.SymInt):  # in a graph that is captured no memory is needed
                return 0
        return _size(self.op, self.source, f"{name}_{self._words[dtype]}", self._backend, sizes)

    def function(
        self, name: str, numbers: str, reads: str, makes: str = "", room: str = "", fails: str = ""
    ) -> NativeFunction:
        """A function of C: its numbers, arguments, outputs and scratch memory; `fails` is what it means by not 0."""
        arguments = _parse_arguments(reads)
        steps = [argument.step for argument in arguments if argument.step]
        return NativeFunction(
            self.op,
            self.source,
            name,
            " ".join([numbers, *steps]),
            *arguments,
            makes=_parse_arguments(makes),
            room=_parse_arguments(room),
            backend=self._backend,
            least=self._least,
            integer=self._integer,
            words=self._words,
            fails=fails,
        )

    def operator(
        self,
        name: str,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        compute: Callable[..., Any],
        *,
        keep: Sequence[int] = (),
        results: int = 1,
    ) -> Operator:
        """The operator of `forward`, whose gradients are the operator of `backward`.

        Backward gets the inputs of forward, its outputs with the indices `keep`, and the gradients of its first
        `results` outputs; it returns the gradients of the first inputs, empty for an input that is None. `compute` are
        the same outputs in torch's operations, from which second derivatives are computed.
        """
        inputs = len(inspect.signature(forward).parameters)

        def differentiable(*saved_and_grads: Tensor | None) -> list[Tensor | None]:
            def outputs(*arguments: Tensor | None) -> Sequence[Tensor]:
                found = compute(*arguments)
                return (found,) if isinstance(found, Tensor) else found

            grads = saved_and_grads[inputs + len(keep) :]
            return differentiate(outputs, saved_and_grads[:inputs], grads)

        return pair_operators(
            name,
            forward,
            backward,
            save=lambda given, outputs: (*given, *(outputs[place] for place in keep)),
            differentiable=differentiable,
            results=results,
        )


@functools.lru_cache(1024)
def _size(op: str, source: Path, name: str, backend: str, sizes: tuple[int, ...]) -> int:
    return native.size(op, source, name, *sizes, backend=backend)


def empty_for_none(like: Tensor, *tensors: Tensor | None) -> tuple[Tensor, ...]:
    """The tensors, an empty one in the place of None, which an operator does not return."""
    return tuple(like.new_empty(0) if tensor is None else tensor for tensor in tensors)


def _parse_arguments(text: str) -> tuple[Argument, ...]:
    arguments = []
    for name, optional, sizes, marks in _TENSOR.findall(text):
        words = marks.replace(",", " ").split()
        dtype = next((_DTYPES[word] for word in words if word in _DTYPES), None)
        step = next((word for word in words if word.endswith("_step")), "")
        arguments.append(Argument(name, sizes, dtype, bool(optional), "written" in words, step, optional[1:]))
    return tuple(arguments)
