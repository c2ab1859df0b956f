"""Parameters of ours that are made of several tensors of theirs: lines of a family's table, as those of `parts`.

    Stacked("w_qkv.weight", ("q", "k", "v"), (16, 8, 8))        theirs below each other, of these many rows
    Concatenated("gates.weight", ("a", "b"))                    theirs along the last axis, of equal widths
    Rows("w_qkv.weight", ("in_proj",), (index,), (64,))         some rows of a matrix of theirs, which has 64

A fused matrix is filled in place, so that loading needs little more memory than the model.
"""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, final

from torch import Tensor
from typing_extensions import override

from seqloom.models.foreign.parts import Part, Shape


@dataclass(frozen=True)
class FusedPart(Part, ABC):
    """Of several tensors of theirs, in order."""

    others: tuple[str, ...]

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return self.others

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, others=tuple(theirs + other for other in self.others))


@final
@dataclass(frozen=True)
class Stacked(FusedPart):
    """Several matrices below each other, of `rows` rows each."""

    rows: tuple[int, ...]

    @override
    def shapes(self, shape: Shape) -> list[Shape]:
        return [(rows, *shape[1:]) for rows in self.rows]

    @override
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        for name, part in zip(self.others, target.split(self.rows), strict=True):
            part.copy_(read(name))

    @override
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        theirs.update(zip(self.others, (part.contiguous() for part in tensor.split(self.rows)), strict=True))


@final
@dataclass(frozen=True)
class ConcatenatedTaps(FusedPart):
    """The taps of several convolutions, concatenated by channel, of `widths` channels each: see `Taps`."""

    widths: tuple[int, ...]

    @override
    def shapes(self, shape: Shape) -> list[Shape]:
        return [(width, 1, shape[0]) for width in self.widths]

    @override
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        for name, part in zip(self.others, target.split(self.widths, 1), strict=True):
            part.copy_(read(name)[:, 0].flip(1).T)

    @override
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        for name, part in zip(self.others, tensor.split(self.widths, 1), strict=True):
            theirs[name] = part.T.flip(1)[:, None].contiguous()


@final
@dataclass(frozen=True)
class Concatenated(FusedPart):
    """Tensors of equal widths, concatenated along the last axis."""

    @override
    def shapes(self, shape: Shape) -> list[Shape]:
        return [(*shape[:-1], shape[-1] // len(self.others))] * len(self.others)

    @override
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        for name, part in zip(self.others, target.chunk(len(self.others), -1), strict=True):
            part.copy_(read(name))

    @override
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        for name, part in zip(self.others, tensor.chunk(len(self.others), -1), strict=True):
            theirs[name] = part.contiguous()


@final
@dataclass(frozen=True)
class WithFirstRow(FusedPart):
    """A table, to each row of which the first row of another, of `rows` rows, is added. It is not written back."""

    rows: int

    @override
    def shapes(self, shape: Shape) -> list[Shape]:
        return [shape, (self.rows, *shape[1:])]

    @override
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        table, other = self.others
        target.copy_(read(table) + read(other)[0])

    @override
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        raise ValueError(f"{self.others[0]} and {self.others[1]} cannot be told apart, so that they are not written")


@final
@dataclass(frozen=True)
class Vectors(FusedPart):
    """Rows of a matrix (n, D), each of which is a tensor (1, 1, D) there."""

    @override
    def shapes(self, shape: Shape) -> list[Shape]:
        return [(1, 1, shape[1])] * len(self.others)

    @override
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        for name, row in zip(self.others, target, strict=True):
            row.copy_(read(name)[0, 0])

    @override
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        theirs.update((name, row[None, None].contiguous()) for name, row in zip(self.others, tensor, strict=True))


@final
@dataclass(frozen=True, eq=False)
class Rows(FusedPart):
    """Rows of several matrices below each other: of each, those of an index; it has `totals` rows in all."""

    indices: tuple[Tensor, ...]
    totals: tuple[int, ...]

    @override
    def shapes(self, shape: Shape) -> list[Shape]:
        return [(total, *shape[1:]) for total in self.totals]

    @override
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        pieces = target.split([len(index) for index in self.indices])
        for name, index, piece in zip(self.others, self.indices, pieces, strict=True):
            piece.copy_(read(name)[index])

    @override
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        pieces = tensor.split([len(index) for index in self.indices])
        for name, index, total, piece in zip(self.others, self.indices, self.totals, pieces, strict=True):
            theirs.setdefault(name, tensor.new_empty(total, *tensor.shape[1:]))[index] = piece
