"""Generates, for a signature that is not for C, a function that checks its tensors without loops.

torch.compile interprets every instruction of Python, which takes some 60 µs each. The loops of the general check over
arguments and sizes (`Signature._check`) were two fifths of all instructions of a mixer, and outside of graphs they take
two to four times as long as the generated function. For `Argument("q", "B T", "real")` and
`Argument("state", "B T+1", "real", optional=True)` this function is

    def fits(tensors):
        if len(tensors) != 2: return None
        x0, x1, = tensors
        if not isinstance(x0, Tensor): return None
        dtype = x0.dtype
        device = x0.device
        if x0.layout != strided or not dtype.is_floating_point: return None
        shape = x0.shape
        if len(shape) != 2: return None
        B_, T_, = shape
        sizes = {'B': B_, 'T': T_}
        if x1 is not None:
            if not isinstance(x1, Tensor): return None
            dtype = x1.dtype
            if x1.layout != strided or x1.device != device or not dtype.is_floating_point: return None
            if x1.shape != (B_, T_+1,): return None
        return sizes, None

It only says whether all tensors fit. If one does not, `Signature._check` checks them again and raises the error.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from seqloom.ops.native.signature import Argument

Fits: TypeAlias = Callable[[tuple[Tensor | None, ...]], tuple[dict[str, int], torch.dtype | None] | None]
"""fits(tensors): the values of the letters and the shared dtype; None where something does not fit"""
_IS_OTHER_KIND = {
    "real": "not dtype.is_floating_point",
    "number": "not (dtype.is_floating_point or dtype.is_complex)",
    "integer": "(dtype.is_floating_point or dtype.is_complex or dtype == boolean)",
}
"""by kind, an expression that is true for a dtype of another kind"""


def write_check(arguments: Sequence["Argument"], least: str) -> Fits | None:
    """The function for these arguments, on any one device; None where it cannot be written without loops.

    That is so where the first argument, or the first of those that share a dtype, may be None, and where a letter that
    only optional arguments have is used twice. `least` names the sizes that must be at least 1.
    """
    sharing = next((index for index, argument in enumerate(arguments) if argument.dtype is None), None)
    if arguments[0].optional or (sharing is not None and arguments[sharing].optional):
        return None
    required = {letter for argument in arguments if not argument.optional for letter in _letters(argument)}
    uses = Counter(letter for argument in arguments for letter in _letters(argument) if letter not in required)
    if any(times > 1 for times in uses.values()):
        return None
    names: dict[str, Any] = {"Tensor": Tensor, "strided": torch.strided, "boolean": torch.bool}
    exec("\n    ".join(["def fits(tensors):", *_lines(arguments, least, sharing, names)]), names)
    fits: Fits = names.pop("fits")
    return fits


def _lines(arguments: Sequence["Argument"], least: str, sharing: int | None, names: dict[str, Any]) -> list[str]:
    """The lines of the function, and in `names` the objects that they use.

    `sharing` is the index of the first of the arguments that share a dtype, if there are such.
    """
    lines = [
        *_return_none_if([f"len(tensors) != {len(arguments)}"]),
        f"{', '.join(f'x{index}' for index in range(len(arguments)))}, = tensors",
    ]
    known: set[str] = set()
    wrong_sizes: list[str] = []
    for index, argument in enumerate(arguments):
        if not argument.optional:
            lines += _tensor_lines(index, argument, index == sharing, names)
            wrong_sizes += _size_conditions(index, argument, known, lines)
    wrong_sizes += [f"{_value(size)} < 1" for size in least.split()]
    lines += _return_none_if(wrong_sizes)
    lines.append(f"sizes = {{{', '.join(f'{letter!r}: {letter}_' for letter in sorted(known))}}}")
    for index, argument in enumerate(arguments):
        if argument.optional:
            before = set(known)
            block = _tensor_lines(index, argument, False, names)
            block += _return_none_if(_size_conditions(index, argument, known, block))
            block += [f"sizes[{letter!r}] = {letter}_" for letter in sorted(known - before)]
            lines += [f"if x{index} is not None:", *("    " + line for line in block)]
    return [*lines, f"return sizes, {'None' if sharing is None else 'shared'}"]


def _tensor_lines(index: int, argument: "Argument", first: bool, names: dict[str, Any]) -> list[str]:
    """Lines that check type, layout, device and dtype of one argument.

    `first`: it is the first of those that share a dtype, so its dtype is stored as `shared`.
    """
    x = f"x{index}"
    wrong = [f"{x}.layout != strided"]
    if index:
        wrong.append(f"{x}.device != device")
    if isinstance(argument.dtype, str):
        wrong.append(_IS_OTHER_KIND[argument.dtype])
    elif argument.dtype is not None:
        names[f"dtype{index}"] = argument.dtype
        wrong.append(f"dtype != dtype{index}")
    elif not first:
        wrong.append("dtype != shared")
    return [
        *_return_none_if([f"not isinstance({x}, Tensor)"]),
        f"dtype = {x}.dtype",
        *([] if index else [f"device = {x}.device"]),
        *(["shared = dtype"] if first else []),
        *_return_none_if(wrong),
    ]


def _size_conditions(index: int, argument: "Argument", known: set[str], lines: list[str]) -> list[str]:
    """Conditions under which the sizes of an argument do not fit.

    To `lines` it adds those that read the values of new letters from the shape, and to `known` these letters.
    """
    sizes = argument.sizes.split()
    new = {size for size in sizes if size.isalpha()} - known
    if not new:
        return [f"x{index}.shape != ({', '.join(map(_value, sizes))}{',' if sizes else ''})"]
    names, conditions = [], []
    for axis, size in enumerate(sizes):
        if size in new and size not in known:
            known.add(size)
            names.append(f"{size}_")
        else:
            names.append(f"x{index}_{axis}")
            conditions.append(f"x{index}_{axis} != {_value(size)}")
    lines.append(f"shape = x{index}.shape")
    lines += _return_none_if([f"len(shape) != {len(sizes)}"])
    lines.append(f"{', '.join(names)}, = shape")
    return conditions


def _return_none_if(conditions: list[str]) -> list[str]:
    return [f"if {' or '.join(conditions)}: return None"] if conditions else []


def _letters(argument: "Argument") -> list[str]:
    return re.findall(r"[^\W\d]+", argument.sizes)


def _value(size: str) -> str:
    """A size as Python reads it: T+1 as T_+1."""
    return re.sub(r"([^\W\d]+)", r"\1_", size)
