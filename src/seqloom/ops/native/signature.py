"""Signatures of functions of tensors: names, sizes as letters, dtypes and memory layout.

    SIGNATURE = Signature("wkv_average", Argument("k", "B D"), Argument("state", "B 3 D"))
    SIGNATURE.bind(k, state).sizes                  # {"B": 1, "D": 128}, or a ValueError that names the argument

A size is a number, a letter, or an expression of letters and numbers with + - *, such as T+1. A letter gets its value
from the first tensor that has the letter alone as a size; all other sizes must agree with it.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final

import torch
from torch import Tensor
from torch._C._dynamo import guards

Kind: TypeAlias = Literal["real", "number", "integer"]
"""real: float16 to float64; number: real or complex; integer: integers but not bool"""
LARGEST = 1 << 30
"""the largest size, so that a sum of two sizes fits into a C int"""


@final
@dataclass(frozen=True)
class Argument:
    """One tensor. `sizes` are separated by spaces, so that "B T D" is a tensor of three dimensions."""

    name: str
    sizes: str
    dtype: torch.dtype | Kind | None = None
    """None: the same dtype as the first argument with None; a Kind: any dtype of that kind"""
    optional: bool = False
    """whether it may be None"""
    written: bool = False
    """whether the function writes into it, so that it must not be copied"""
    step: str = ""
    """for C: the name of the stride between tokens, if it may have any; without it the tensor must be contiguous"""


class Bound(NamedTuple):
    """The result of `bind` for tensors that fit."""

    sizes: dict[str, int]
    """the values of letters, given numbers and strides"""
    numbers: tuple[int, ...]
    """for C: its numbers, in order"""
    copied: tuple[int, ...]
    """for C: indices of the tensors that must be copied because of their layout"""
    dtype: torch.dtype | None
    """the dtype of the arguments that share one"""


@final
class Signature:
    """The tensors that a function takes, in order.

    With `numbers` it is the signature of a C function that gets these sizes: tensors must be on the CPU and contiguous,
    and sizes at most LARGEST. `least` names sizes that must be at least 1. `dtypes` are the allowed shared dtypes.
    """

    def __init__(
        self,
        op: str,
        *arguments: Argument,
        numbers: str = "",
        least: str = "",
        dtypes: tuple[torch.dtype, ...] = (),
    ) -> None:
        self.op, self.arguments = op, arguments
        self._numbers = [_Size(number) for number in numbers.split()]
        self._least = [_Size(number) for number in least.split()]
        self._dtypes = dtypes
        self._steps = {argument.step for argument in arguments if argument.step}
        self._dims = [[_Size(size) for size in argument.sizes.split()] for argument in arguments]
        self._last: _Last | None = None

    def bind(self, *tensors: Tensor | None, **numbers: int) -> Bound:
        """Sizes and layout of the tensors, in the order of the arguments; `numbers` are sizes known beforehand.

        ValueError names the argument, what it is and what is expected; TypeError where it is not a tensor. The last
        result is cached, so that the check of the next token with the same sizes is fast.
        """
        if torch.compiler.is_compiling():  # sizes may be symbols
            return self._check(tensors, numbers)
        return self.again(tensors, numbers)

    def again(self, tensors: tuple[Tensor | None, ...], numbers: dict[str, int]) -> Bound:
        """`bind` outside of graphs, with the cached result if the tensors are like the last ones."""
        given = [tensor for tensor in tensors if tensor is not None]
        absent = [tensor is None for tensor in tensors]
        last = self._last
        if last is not None and last.absent == absent and last.numbers == numbers and last.guards.check(*given):
            return last.bound
        bound, guards = self._check(tensors, numbers), _guards(given)
        if guards is not None:
            self._last = _Last(absent, numbers, guards, bound)
        return bound

    def _check(self, tensors: tuple[Tensor | None, ...], numbers: dict[str, int]) -> Bound:
        """`bind` without the cache. TypeError or ValueError where tensors or numbers do not fit the signature."""
        if len(tensors) != len(self.arguments):
            raise TypeError(f"{self.op} takes {len(self.arguments)} tensors, not {len(tensors)}")
        shared = self._shared(tensors)
        sizes = dict(numbers)
        rows = zip(range(len(tensors)), self.arguments, self._dims, tensors, strict=True)
        given = [(index, argument, dims, tensor) for index, argument, dims, tensor in rows if tensor is not None]
        declarations: dict[str, list[_Size]] = {}  # most tensors have the sizes of another one: each is read once
        for _, argument, dims, tensor in given:
            if tensor.ndim != len(dims):
                raise self._wrong(argument, _shape(dims), tuple(tensor.shape))
            if argument.sizes in declarations:
                continue
            declarations[argument.sizes] = dims
            for declared, size in zip(dims, tensor.shape, strict=True):
                if declared.alone and declared.text not in sizes:
                    sizes[declared.text] = size
        shapes = {text: tuple([size.value(sizes) for size in dims]) for text, dims in declarations.items()}
        for _, argument, dims, tensor in given:
            expected = shapes[argument.sizes]
            if tensor.shape != expected:
                raise self._wrong(argument, f"{_shape(dims)} = {expected}", tuple(tensor.shape))
        for declared in self._least:
            if (size := declared.value(sizes)) < 1:
                raise ValueError(f"{self.op}: {declared.text} must be at least 1, not {size}")
        if not self._numbers:
            return Bound(sizes, (), (), shared)
        sizes |= dict.fromkeys(self._steps, 0)
        copied = tuple(index for index, argument, _, tensor in given if self._copied(argument, tensor, sizes))
        return Bound(sizes, self._limited(sizes), copied, shared)

    def _limited(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The numbers that the C function gets. ValueError where one is too large."""
        numbers = tuple([size.value(sizes) for size in self._numbers])
        for limit, size in zip(self._numbers, numbers, strict=True):
            if limit.text not in self._steps and size > LARGEST:
                raise ValueError(f"{self.op}: {limit.text} = {size} is too large: at most {LARGEST}")
        return numbers

    def _shared(self, tensors: tuple[Tensor | None, ...]) -> torch.dtype | None:
        """Checks types, devices and dtypes, and returns the shared dtype."""
        shared, device = None, torch.device("cpu") if self._numbers else None
        for argument, tensor in zip(self.arguments, tensors, strict=True):
            if tensor is None:
                if not argument.optional:
                    raise TypeError(f"{self.op}: {argument.name} must be a tensor, not None")
                continue
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{self.op}: {argument.name} must be a tensor, not {type(tensor).__name__}")
            if tensor.layout != torch.strided:
                raise ValueError(f"{self.op}: {argument.name} must be a dense tensor, not {tensor.layout}")
            device = tensor.device if device is None else device
            if tensor.device != device:
                raise self._wrong(argument, f"on device {device}", f"on {tensor.device}")
            if argument.dtype is None and shared is None:
                shared = tensor.dtype
                if self._dtypes and shared not in self._dtypes:
                    raise self._wrong(argument, " or ".join(map(str, self._dtypes)), shared)
            wanted = shared if argument.dtype is None else argument.dtype
            if tensor.dtype != wanted and not (isinstance(wanted, str) and _is(tensor.dtype, wanted)):
                raise self._wrong(argument, _NAMES.get(str(wanted), wanted), tensor.dtype)
        return shared

    def _copied(self, argument: Argument, tensor: Tensor, sizes: dict[str, int]) -> bool:
        """Whether the tensor must be copied because of its layout; writes its stride into `sizes`."""
        fits = tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj())
        if argument.step:
            *_, before, T, D = (1, 1, *tensor.shape)
            *_, row, step, last = (0, 0, *tensor.stride())
            whole = tensor.ndim < 3 or before == 1 or row == T * step
            fits = whole and (last == 1 or D == 1) and step >= 0 and not (tensor.is_neg() or tensor.is_conj())
            sizes[argument.step] = step if fits else D
        if argument.written and not fits:
            raise self._wrong(argument, "without gaps, as it is written into", f"of strides {tensor.stride()}")
        return not fits

    def _wrong(self, argument: Argument, wanted: object, actual: object) -> ValueError:
        return ValueError(f"{self.op}: {argument.name} must be {wanted}, not {actual}")


_NAMES = {"real": "of a floating dtype", "number": "of a floating or complex dtype", "integer": "of an integer dtype"}


class _Last(NamedTuple):
    """The last result of `bind`; consecutive tokens have tensors of the same sizes."""

    absent: list[bool]
    numbers: dict[str, int]
    guards: Any
    bound: Bound


def _guards(tensors: list[Tensor]) -> Any | None:
    """torch's C++ check whether tensors have the same type, dtype, device, dispatch keys, sizes and strides as these.

    None where it does not apply (symbolic sizes, or a tensor that occurs twice), or where this torch does not have it.
    """
    try:
        sizes: Any = [list(tensor.shape) for tensor in tensors]
        strides: Any = [list(tensor.stride()) for tensor in tensors]
        made = guards.TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        return made if made.check(*tensors) else None
    except (AttributeError, TypeError, RuntimeError, SystemError):
        return None


def _is(dtype: torch.dtype, kind: str) -> bool:
    if kind == "integer":
        return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return dtype.is_floating_point or (kind == "number" and dtype.is_complex)


def _shape(dims: list["_Size"]) -> str:
    return f"({', '.join(dim.text for dim in dims)}{',' if len(dims) == 1 else ''})"


@final
class _Size:
    """A size as it is declared: a sum of products of letters and numbers."""

    def __init__(self, text: str) -> None:
        self.text, self.alone = text, text.isalpha()
        self._terms = [
            (-1 if sign == "-" else 1, product.split("*")) for sign, product in re.findall(r"([+-]?)([^+-]+)", text)
        ]

    def value(self, sizes: dict[str, int]) -> int:
        """The size, given the value of each letter."""
        if self.alone:
            return sizes[self.text]
        total = 0
        for sign, factors in self._terms:
            product = sign
            for factor in factors:
                product = product * (int(factor) if factor.isdigit() else sizes[factor])
            total = total + product
        return total
