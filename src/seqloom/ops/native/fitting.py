"""The check of a signature as one function without loops, for those that are not for C.

torch.compile interprets every instruction of Python, which takes some 60 µs each. The loops of the general check over
arguments and sizes (`Signature._check`) were two fifths of all instructions of a mixer, and outside of graphs they take
two to four times as long as this. So a function is written from the declaration. For `Argument("q", "B T", "real")` and
`Argument("state", "B T+1", "real", optional=True)` it is

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

It only says whether all fits. What does not fit is checked again by `Signature._check`, which raises the error.
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
_OTHER = {
    "real": "not dtype.is_floating_point",
    "number": "not (dtype.is_floating_point or dtype.is_complex)",
    "integer": "(dtype.is_floating_point or dtype.is_complex or dtype == boolean)",
}
"""by kind: whether a dtype is of another kind"""


def written(arguments: Sequence["Argument"], least: str) -> Fits | None:
    """The check of these arguments, on any one device; None where it cannot be written without loops.

    That is so where the first argument, or the first of those that share a dtype, may be None, and where a letter that
    only optional arguments give is used twice.
    """
    sharing = next((index for index, argument in enumerate(arguments) if argument.dtype is None), None)
    needed = {letter for argument in arguments if not argument.optional for letter in _letters(argument)}
    rare = Counter(letter for argument in arguments for letter in _letters(argument) if letter not in needed)
    unsure = arguments[0].optional or (sharing is not None and arguments[sharing].optional)
    if unsure or any(times > 1 for times in rare.values()):
        return None
    names: dict[str, Any] = {"Tensor": Tensor, "strided": torch.strided, "boolean": torch.bool}
    exec("\n    ".join(["def fits(tensors):", *_lines(arguments, least, sharing, names)]), names)
    fits: Fits = names.pop("fits")
    return fits


def _lines(arguments: Sequence["Argument"], least: str, sharing: int | None, names: dict[str, Any]) -> list[str]:
    """The lines of the function; adds to `names` what they use."""
    lines = [
        *_refused([f"len(tensors) != {len(arguments)}"]),
        f"{', '.join(f'x{index}' for index in range(len(arguments)))}, = tensors",
    ]
    known: set[str] = set()
    unequal: list[str] = []
    for index, argument in enumerate(arguments):
        if not argument.optional:
            lines += _dense(index, argument, index == sharing, names)
            unequal += _sizes(index, argument, known, lines)
    unequal += [f"{_value(size)} < 1" for size in least.split()]
    lines += _refused(unequal)
    lines.append(f"sizes = {{{', '.join(f'{letter!r}: {letter}_' for letter in sorted(known))}}}")
    for index, argument in enumerate(arguments):
        if argument.optional:
            before = set(known)
            given = _dense(index, argument, False, names)
            given += _refused(_sizes(index, argument, known, given))
            given += [f"sizes[{letter!r}] = {letter}_" for letter in sorted(known - before)]
            lines += [f"if x{index} is not None:", *("    " + line for line in given)]
    return [*lines, f"return sizes, {'None' if sharing is None else 'shared'}"]


def _dense(index: int, argument: "Argument", first: bool, names: dict[str, Any]) -> list[str]:
    """Lines that check all but the sizes; the first of those that share a dtype, where `first`, says which it is."""
    x = f"x{index}"
    wrong = [f"{x}.layout != strided"]
    if index:
        wrong.append(f"{x}.device != device")
    if isinstance(argument.dtype, str):
        wrong.append(_OTHER[argument.dtype])
    elif argument.dtype is not None:
        names[f"dtype{index}"] = argument.dtype
        wrong.append(f"dtype != dtype{index}")
    elif not first:
        wrong.append("dtype != shared")
    return [
        *_refused([f"not isinstance({x}, Tensor)"]),
        f"dtype = {x}.dtype",
        *([] if index else [f"device = {x}.device"]),
        *(["shared = dtype"] if first else []),
        *_refused(wrong),
    ]


def _sizes(index: int, argument: "Argument", known: set[str], lines: list[str]) -> list[str]:
    """Adds lines that read new letters from the sizes; returns what must not be for the other sizes."""
    sizes = argument.sizes.split()
    new = {size for size in sizes if size.isalpha()} - known
    if not new:
        return [f"x{index}.shape != ({', '.join(map(_value, sizes))}{',' if sizes else ''})"]
    names, unequal = [], []
    for axis, size in enumerate(sizes):
        if size in new and size not in known:
            known.add(size)
            names.append(f"{size}_")
        else:
            names.append(f"x{index}_{axis}")
            unequal.append(f"x{index}_{axis} != {_value(size)}")
    lines += [f"shape = x{index}.shape", *_refused([f"len(shape) != {len(sizes)}"]), f"{', '.join(names)}, = shape"]
    return unequal


def _refused(wrong: list[str]) -> list[str]:
    return [f"if {' or '.join(wrong)}: return None"] if wrong else []


def _letters(argument: "Argument") -> list[str]:
    return re.findall(r"[^\W\d]+", argument.sizes)


def _value(size: str) -> str:
    """A size as Python reads it: T+1 as T_+1."""
    return re.sub(r"([^\W\d]+)", r"\1_", size)
