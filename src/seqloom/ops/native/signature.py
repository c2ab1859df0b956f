"""What a function takes, declared once: names, sizes as letters, dtypes and memory layout of its tensors.

    SIGNATURE = Signature("wkv_average", Argument("k", "B D"), Argument("state", "B 3 D"))
    SIGNATURE.bind(k, state).sizes                  # {"B": 1, "D": 128}, or a ValueError that names the argument

A size is a number, a letter, or letters and numbers joined by + - * /, such as T+1. A letter that stands alone gets its
value from the first tensor that has it; everywhere else that value is expected. `ops/checked.py` makes the signature of
an op from the annotations of its function.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from seqloom.core.guards import guards_of

Kind: TypeAlias = Literal["real", "number", "integer"]
"""float16 to float64; these and complex dtypes; integers, without bool"""
LARGEST = 1 << 30
"""the largest size: the sum of two fits into a C int"""


@final
@dataclass(frozen=True)
class Argument:
    """One tensor. `sizes` are separated by spaces, so that "B T D" is a tensor of three dimensions."""

    name: str
    sizes: str
    dtype: torch.dtype | Kind | None = None
    """None: the dtype of the first argument that has None; "number" and so on: any of that kind"""
    optional: bool = False
    """whether it may be None"""
    written: bool = False
    """whether the function writes into it: then it is never copied"""
    step: str = ""
    """for C: the name of the number that is the distance between tokens; without one the tensor has no gaps"""
    of: str = ""
    """of a tensor that a call makes: it is made only where this argument is given, or this number is not 0"""

    @property
    def shape(self) -> str:
        """The sizes as a shape is printed: (B, T, D), or (D,)."""
        sizes = self.sizes.split()
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


class Bound(NamedTuple):
    """The sizes and layout of tensors that fit a signature."""

    sizes: dict[str, int]
    """the letters' values, the numbers that were given and the steps"""
    numbers: tuple[int, ...]
    """for C: its numbers, in order"""
    copied: tuple[int, ...]
    """for C: indices of the tensors that must be copied first, as their layout does not fit"""
    dtype: torch.dtype | None
    """the dtype that arguments share, None if none do"""
    made: tuple[tuple[int, ...] | None, ...] = ()
    """the shapes of the tensors that a call makes, None for one that it does not make"""


@final
class Signature:
    """The tensors that a function takes, in order.

    With `numbers` they are for C, which gets these sizes: on the CPU, without gaps, and none of them above LARGEST.
    `least` names sizes that must be at least 1. `dtypes` are those that the shared dtype may be. `makes` are tensors
    that a call of C makes.
    """

    def __init__(
        self,
        op: str,
        *arguments: Argument,
        numbers: str = "",
        least: str = "",
        dtypes: tuple[torch.dtype, ...] = (),
        makes: tuple[Argument, ...] = (),
    ) -> None:
        self.op, self.arguments = op, arguments
        self._numbers = [_Size(number) for number in numbers.split()]
        self._least = [_Size(number) for number in least.split()]
        self._dtypes = dtypes
        self._makes = [(argument.of, [_Size(size) for size in argument.sizes.split()]) for argument in makes]
        self._steps = {argument.step for argument in arguments if argument.step}
        self._dims = [[_Size(size) for size in argument.sizes.split()] for argument in arguments]
        self._last: dict[tuple[bool, ...], _Last] = {}

    def bind(self, *tensors: Tensor | None, **numbers: int) -> Bound:
        """Sizes and layout of the tensors, in the order of the arguments; `numbers` are sizes known beforehand.

        ValueError names the argument, what it is and what is expected; TypeError where it is no tensor.
        """
        return self._check(tensors, numbers)

    def bind_eagerly(self, tensors: tuple[Tensor | None, ...], numbers: dict[str, int]) -> Bound:
        """`bind` outside of graphs, fast enough for every token.

        The last tensors that fit are remembered, so that others of the same sizes and layout are not checked again; for
        each set of absent ones by itself, since layers of a model may differ in them.
        """
        present = [tensor for tensor in tensors if tensor is not None]
        absent = tuple([tensor is None for tensor in tensors])
        last = self._last.get(absent)
        if last is not None and last.numbers == numbers and last.guards.check(*present):
            return last.bound
        bound, guards = self._check(tensors, numbers), guards_of(present)
        if guards is not None:
            self._last[absent] = _Last(numbers, guards, bound)
        return bound

    def _check(self, tensors: tuple[Tensor | None, ...], numbers: dict[str, int]) -> Bound:
        """The call with all sizes known. TypeError or ValueError where tensors or numbers do not fit the signature."""
        if len(tensors) != len(self.arguments):
            raise TypeError(f"{self.op} takes {len(self.arguments)} tensors, not {len(tensors)}")
        shared = self._shared_dtype(tensors)
        sizes = dict(numbers)
        present = [
            (index, argument, dims, tensor)
            for index, (argument, dims, tensor) in enumerate(zip(self.arguments, self._dims, tensors, strict=True))
            if tensor is not None
        ]
        for _, argument, dims, tensor in present:
            if tensor.ndim != len(dims):
                raise self._wrong(argument, argument.shape, tuple(tensor.shape))
            for declared, size in zip(dims, tensor.shape, strict=True):
                if declared.alone and declared.text not in sizes:
                    sizes[declared.text] = size
        for _, argument, dims, tensor in present:
            expected = tuple([declared.value(sizes) for declared in dims])
            if tensor.shape != expected:
                raise self._wrong(argument, f"{argument.shape} = {expected}", tuple(tensor.shape))
        for declared in self._least:
            if (size := declared.value(sizes)) < 1:
                raise ValueError(f"{self.op}: {declared.text} must be at least 1, not {size}")
        if not self._numbers:
            return Bound(sizes, (), (), shared)
        sizes |= dict.fromkeys(self._steps, 0)
        copied = tuple(index for index, argument, _, tensor in present if self._must_copy(argument, tensor, sizes))
        return Bound(sizes, self._numbers_for_c(sizes), copied, shared, self.made_shapes(tensors, sizes))

    def made_shapes(
        self, tensors: tuple[Tensor | None, ...], sizes: dict[str, int], count: int | None = None
    ) -> tuple[tuple[int, ...] | None, ...]:
        """The shapes of the first `count` tensors that a call with these tensors makes, or of all.

        `sizes` are the values of letters; those that are missing are read from the tensors.
        """
        given = {argument.name for argument, tensor in zip(self.arguments, tensors, strict=True) if tensor is not None}
        given |= {name for name, number in sizes.items() if number}
        for dims, tensor in zip(self._dims, tensors, strict=True):
            if tensor is not None:
                for declared, size in zip(dims, tensor.shape, strict=True):
                    if declared.alone:
                        sizes.setdefault(declared.text, size)
        return tuple(
            tuple(declared.value(sizes) for declared in dims) if not of or of in given else None
            for of, dims in self._makes[:count]
        )

    def _numbers_for_c(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The numbers that C gets, in order. ValueError where a size is larger than LARGEST."""
        numbers = tuple([size.value(sizes) for size in self._numbers])
        for limit, size in zip(self._numbers, numbers, strict=True):
            if limit.text not in self._steps and size > LARGEST:
                raise ValueError(f"{self.op}: {limit.text} = {size} is too large: at most {LARGEST}")
        return numbers

    def _shared_dtype(self, tensors: tuple[Tensor | None, ...]) -> torch.dtype | None:
        """The shared dtype, after types, devices and dtypes of all tensors are checked."""
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
            fits = _is_kind(tensor.dtype, wanted) if isinstance(wanted, str) else tensor.dtype == wanted
            if not fits:
                raise self._wrong(argument, _NAMES.get(str(wanted), wanted), tensor.dtype)
        return shared

    def _must_copy(self, argument: Argument, tensor: Tensor, sizes: dict[str, int]) -> bool:
        """Whether C cannot read the tensor as it is. In `sizes` it sets the tensor's step, the distance of tokens."""
        fits = tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj())
        if argument.step:
            *_, rows, T, D = (1, 1, *tensor.shape)
            *_, row_stride, step, channel_stride = (0, 0, *tensor.stride())
            evenly_spaced = tensor.ndim < 3 or rows == 1 or row_stride == T * step
            adjacent = channel_stride == 1 or D == 1
            fits = evenly_spaced and adjacent and step >= 0 and not (tensor.is_neg() or tensor.is_conj())
            sizes[argument.step] = step if fits else D
        if argument.written and not fits:
            raise self._wrong(argument, "without gaps, as it is written into", f"of strides {tensor.stride()}")
        return not fits

    def _wrong(self, argument: Argument, wanted: object, actual: object) -> ValueError:
        return ValueError(f"{self.op}: {argument.name} must be {wanted}, not {actual}")


_NAMES = {"real": "of a floating dtype", "number": "of a floating or complex dtype", "integer": "of an integer dtype"}


class _Last(NamedTuple):
    """The last call that fit, which tensors of the same sizes and layout need not repeat."""

    numbers: dict[str, int]
    guards: Any
    bound: Bound


def _is_kind(dtype: torch.dtype, kind: str) -> bool:
    if kind == "integer":
        return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    return dtype.is_floating_point or (kind == "number" and dtype.is_complex)


@final
class _Size:
    """A size as it is declared: a sum of products of letters and numbers."""

    def __init__(self, text: str) -> None:
        self.text, self.alone = text, text.isalpha()
        self._terms = [
            (-1 if sign == "-" else 1, re.findall(r"([*/]?)(\w+)", product))
            for sign, product in re.findall(r"([+-]?)([^+-]+)", text)
        ]

    def value(self, sizes: dict[str, int]) -> int:
        """The size, given the value of each letter; where a division leaves a remainder, -1, which fits no tensor."""
        if self.alone:
            return sizes[self.text]
        total = 0
        for sign, factors in self._terms:
            product = sign
            for operation, factor in factors:
                number = int(factor) if factor.isdigit() else sizes[factor]
                if operation != "/":
                    product = product * number
                elif number and product % number == 0:
                    product = product // number
                else:
                    return -1
            total = total + product
        return total
