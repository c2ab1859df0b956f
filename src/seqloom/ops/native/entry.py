"""Calls of C functions, which are declared with the tensors that they take and checked at every call.

    TOKEN = Entry("wkv_average", SOURCE, "token", "B D", Argument("k", "B D"), Argument("y", "B D", written=True))
    TOKEN(k, y)                                     # token_float(B, D, k, y), or token_double

The C function gets the declared sizes, then a pointer to each tensor, NULL for None. So it uses the sizes that its
tensors were checked against. `callable_directly` says where it may be called without torch's operators, whose overhead
exceeds the time of a token.
"""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch._C import _functorch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from seqloom.ops.native.loaded import expect, has_function, library, on_forget, why
from seqloom.ops.native.signature import LARGEST, Argument, Signature

WORD = {torch.float32: "float", torch.float64: "double"}
"""the suffix of a function's name, by dtype"""
COMPLEX = {**WORD, torch.complex64: "float", torch.complex128: "double"}
"""suffixes for functions that also take complex numbers, as pairs"""
_PLAIN = (Tensor, torch.nn.Parameter)


def unavailable(backend: str, *sources: Path) -> dict[str, str]:
    """The backend with the reason why one of its sources is not available; empty where all are."""
    reasons = [reason for reason in map(why, sources) if reason]
    return {backend: reasons[0]} if reasons else {}


def need(op: str, source: Path, name: str, backend: str = "native") -> Any:
    """A C function of a source. ValueError, with the reason, where there is none."""
    loaded = library(source)
    if loaded is None:
        raise ValueError(f"the backend {backend} of {op} is not available here: {why(source)}")
    if not has_function(loaded, name):
        raise ValueError(f"the backend {backend} of {op} is not available here: its library lacks {name}")
    return loaded[name]  # by index, which makes a new object: an attribute of the library would share argument types


def is_without_numbers(tensors: Sequence[Tensor | None]) -> bool:
    """Whether the first tensor has only a shape, as in a graph that is captured or on the device `meta`."""
    first = tensors[0]
    return isinstance(first, Tensor) and (isinstance(first, FakeTensor) or first.is_meta)


def size(op: str, source: Path, name: str, *sizes: int, backend: str = "native") -> int:
    """The size of the memory that a C function needs, from the C function `name` of ints, which returns a `size_t`."""
    if max(sizes) > LARGEST:
        raise ValueError(f"{op}: a size of {max(sizes)} is too large: at most {LARGEST}")
    function = need(op, source, name, backend)
    function.argtypes, function.restype = (ctypes.c_int,) * len(sizes), ctypes.c_size_t
    result: int = function(*sizes)
    return result


@final
class NativeFunction:
    """A function of a C source, in one version for each dtype of `words`, with its numbers and its tensors.

    Numbers are passed as `integer`, strides as 64 bits; numbers that do not follow from the tensors are keyword
    arguments of the call. `least` names sizes that must be at least 1. After its arguments C gets the tensors that the
    call `makes` and returns, and its scratch memory, the `room`. `fails` says what is wrong where C does not return 0.
    """

    def __init__(
        self,
        op: str,
        source: Path,
        name: str,
        numbers: str,
        *arguments: Argument,
        makes: tuple[Argument, ...] = (),
        room: tuple[Argument, ...] = (),
        backend: str = "native",
        least: str = "",
        integer: Any = ctypes.c_int,
        words: dict[torch.dtype, str] = WORD,
        fails: str = "",
    ) -> None:
        self.signature = Signature(
            op, *arguments, numbers=numbers, least=least, dtypes=tuple(words), makes=(*makes, *room)
        )
        self.name = name
        self._op, self._source, self._backend, self._words = op, source, backend, words
        dtypes = [argument.dtype for argument in (*makes, *room)]
        self._dtypes = [dtype if isinstance(dtype, torch.dtype) else None for dtype in dtypes]
        self._outputs, self._fails = len(makes), fails
        steps = {argument.step for argument in arguments if argument.step}
        types = [ctypes.c_int64 if number in steps else integer for number in numbers.split()]
        self._argument_types = [*types, *[ctypes.c_void_p] * (len(arguments) + len(self._dtypes))]
        self._functions: dict[torch.dtype | None, Callable[..., int]] = {}
        on_forget(self._functions.clear)
        typed = any(argument.dtype is None for argument in arguments)
        expect(source, [f"{name}_{word}" for word in words.values()] if typed else [name])

    def __call__(self, *tensors: Tensor | None, **numbers: int) -> Any:
        """Calls the function: the tensor that it makes, a tuple of several, None for one that is not made.

        An entry that makes none returns C's `int`. ValueError where a tensor does not fit or there is no native code.
        Tensors with a layout that the C code does not read are copied first. Of tensors without numbers, as graphs are
        captured with, it makes tensors without numbers.
        """
        if self._outputs and is_without_numbers(tensors):
            made = self._make(self.signature.made_shapes(tensors, {**numbers}, self._outputs), tensors[0])
        else:
            bound = self.signature.bind_eagerly(tensors, numbers)
            passed = _with_copies(tensors, bound.copied) if bound.copied else tensors
            made = self._make(bound.made, tensors[0]) if bound.made else []
            function = self._functions.get(bound.dtype) or self._function(bound.dtype)
            pointers = [None if tensor is None else tensor.data_ptr() for tensor in (*passed, *made)]
            status = function(*bound.numbers, *pointers)
            if self._fails and status:
                raise ValueError(f"{self._op}: {self._fails}")
            if not self._outputs:
                return status
        return made[0] if self._outputs == 1 else tuple(made[: self._outputs])

    def _make(self, shapes: tuple[tuple[int, ...] | None, ...], like: Tensor | None) -> list[Tensor | None]:
        assert like is not None
        return [
            None if shape is None else like.new_empty(shape, dtype=dtype)
            for shape, dtype in zip(shapes, self._dtypes, strict=False)
        ]

    def _function(self, dtype: torch.dtype | None) -> Callable[..., int]:
        name = self.name if dtype is None else f"{self.name}_{self._words[dtype]}"
        function = need(self._op, self._source, name, self._backend)
        function.argtypes = self._argument_types
        self._functions[dtype] = function
        typed: Callable[..., int] = function
        return typed


def _with_copies(tensors: tuple[Tensor | None, ...], copied: tuple[int, ...]) -> list[Tensor | None]:
    """The tensors, those at the indices `copied` made contiguous."""
    passed = list(tensors)
    for index in copied:
        if (x := passed[index]) is not None:
            passed[index] = x.resolve_conj().resolve_neg().contiguous()
    return passed


def alike(first: Tensor, *rest: Tensor, optional: tuple[Tensor | None, ...] = ()) -> bool:
    """Whether all arguments are tensors of one dtype; those in `optional` may be None. It is fast."""
    if not isinstance(first, Tensor):
        return False
    dtype = first.dtype
    for other in rest:
        if not isinstance(other, Tensor) or other.dtype != dtype:
            return False
    for tensor in optional:  # a loop, because a generator is slower
        if tensor is not None and not (isinstance(tensor, Tensor) and tensor.dtype == dtype):
            return False
    return True


def is_observed(x: Tensor) -> bool:
    """Whether something observes the operators that run, so that C must not be called directly.

    It is so where a graph is captured, x is not a plain tensor, or a mode or transform handles torch's operations.
    """
    return (
        torch.compiler.is_compiling()
        or type(x) not in _PLAIN
        or torch._C._len_torch_dispatch_stack() > 0
        or _functorch.maybe_current_level() is not None
    )


def callable_directly(x: Tensor, *rest: Tensor) -> bool:
    """Whether C may be called directly with these tensors: of one dtype, not observed, and without gradients."""
    if is_observed(x) or forward_ad._current_level >= 0 or not alike(x, *rest):
        return False
    if torch.is_grad_enabled():
        return not (x.requires_grad or any(tensor.requires_grad for tensor in rest))
    return True
