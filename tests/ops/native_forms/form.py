"""One form of a call of C, and the random numbers that it is made from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias, final

from torch import Tensor

Draw: TypeAlias = Callable[..., Tensor]
"""sizes → a tensor of random numbers, an input that is differentiated"""
Outputs: TypeAlias = Tensor | tuple[Tensor, ...]


@final
@dataclass(frozen=True)
class Form:
    """A call of an op, with its optional inputs given or not, as a function of `draw` and of sizes."""

    name: str
    op: str
    """whose backend is forced"""
    run: Callable[..., Outputs]
    """`draw` and the numbers of one element of `sizes` → everything that the call returns or overwrites"""
    sizes: tuple[tuple[int, ...], ...]
    native: str = "native"
    portable: str = "reference"
    learns: bool = True
    """whether it is differentiated; a call for one token is not"""


def with_and_without(op: str, *inputs: str) -> Iterator[tuple[str, tuple[bool, ...]]]:
    """Each set of optional inputs: the name of the form, and for each of them whether it is given."""
    for given in product((False, True), repeat=len(inputs)):
        names = [name for name, there in zip(inputs, given, strict=True) if there]
        yield f"{op} {', '.join(names) or 'alone'}", given


def maybe(draw: Draw, there: bool, *sizes: int) -> Tensor | None:
    """A tensor of these sizes, or None."""
    return draw(*sizes) if there else None
