"""How a parameter of ours is made of theirs, and theirs of ours: one line of a family's table, read both ways.

    Same("norm.weight", "model.norm.weight")                    the same tensor
    Same("norm.weight", "model.norm.weight", centre=1.0)        theirs plus 1: norms that multiply by 1 + weight
    Turned("w_1.weight", "c_fc.weight")                         theirs is (inputs, outputs)
    Stacked("w_qkv.weight", ("q", "k", "v"), (16, 8, 8))        theirs below each other, of these many rows
    ByHead("w_qkv.weight", "query_key_value.weight", 4, 3)      theirs head by head, ours kind by kind
    Rows("w_qkv.weight", ("in_proj",), (index,), (64,))         some rows of a matrix of theirs, which has 64
    Taps("conv.weight", "conv1d.weight")                        theirs (E, 1, W) oldest first, ours (W, E) latest first

A fused matrix is filled in place, so that loading needs little more memory than the model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, final

import torch
from torch import Tensor
from typing_extensions import override

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Part(ABC):
    """One parameter of ours, `ours`, and the tensors of theirs that it is made of, by name."""

    ours: str

    @property
    @abstractmethod
    def theirs(self) -> tuple[str, ...]:
        """The names of theirs."""

    @abstractmethod
    def shapes(self, shape: Shape) -> list[Shape]:
        """The shapes of theirs, given that of ours."""

    @abstractmethod
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        """Writes into our parameter what `read` gives of theirs by name."""

    @abstractmethod
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        """Writes our parameter into theirs, by name; a tensor of theirs may be of several parameters of ours."""

    @abstractmethod
    def under(self, ours: str, theirs: str) -> Self:
        """The same line with these prefixes: of one layer."""


@dataclass(frozen=True)
class _One(Part, ABC):
    """Of one tensor of theirs."""

    other: str

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return (self.other,)

    @override
    def fill(self, target: Tensor, read: Callable[[str], Tensor]) -> None:
        target.copy_(self._ours(read(self.other)))

    @override
    def split(self, tensor: Tensor, theirs: dict[str, Tensor]) -> None:
        theirs[self.other] = self._theirs(tensor).contiguous()

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, other=theirs + self.other)

    @abstractmethod
    def _ours(self, tensor: Tensor) -> Tensor:
        """Ours, given theirs."""

    @abstractmethod
    def _theirs(self, tensor: Tensor) -> Tensor:
        """Theirs, given ours."""

    @override
    def shapes(self, shape: Shape) -> list[Shape]:
        return [tuple(self._theirs(torch.empty(shape, device="meta")).shape)]


@final
@dataclass(frozen=True)
class Same(_One):
    """The same tensor, plus `centre`."""

    centre: float = 0.0

    @override
    def _ours(self, tensor: Tensor) -> Tensor:
        return tensor + self.centre if self.centre else tensor

    @override
    def _theirs(self, tensor: Tensor) -> Tensor:
        return tensor - self.centre if self.centre else tensor


@final
@dataclass(frozen=True)
class Turned(_One):
    """A matrix that is (inputs, outputs) there."""

    @override
    def _ours(self, tensor: Tensor) -> Tensor:
        return tensor.T

    @override
    def _theirs(self, tensor: Tensor) -> Tensor:
        return tensor.T


@final
@dataclass(frozen=True)
class Flat(_One):
    """A vector that is (1, 1, D) there."""

    @override
    def _ours(self, tensor: Tensor) -> Tensor:
        return tensor.flatten()

    @override
    def _theirs(self, tensor: Tensor) -> Tensor:
        return tensor[None, None]


@final
@dataclass(frozen=True)
class Taps(_One):
    """The taps of a convolution."""

    @override
    def _ours(self, tensor: Tensor) -> Tensor:
        return tensor[:, 0].flip(1).T

    @override
    def _theirs(self, tensor: Tensor) -> Tensor:
        return tensor.T.flip(1)[:, None]


@final
@dataclass(frozen=True)
class Groups(_One):
    """Gains (groups, channels of a group), which are one vector there."""

    groups: int = 1

    @override
    def _ours(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (self.groups, -1))

    @override
    def _theirs(self, tensor: Tensor) -> Tensor:
        return tensor.flatten()


@final
@dataclass(frozen=True)
class ByHead(_One):
    """Rows that are ordered by head, then by kind (queries, keys, values) there, and by kind, then by head here."""

    heads: int = 1
    kinds: int = 3

    @override
    def _ours(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (self.heads, self.kinds, -1)).transpose(0, 1).flatten(0, 2)

    @override
    def _theirs(self, tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (self.kinds, self.heads, -1)).transpose(0, 1).flatten(0, 2)


@final
@dataclass(frozen=True)
class Stacked(Part):
    """Several matrices below each other, of `rows` rows each."""

    others: tuple[str, ...]
    rows: tuple[int, ...]

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return self.others

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

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, others=tuple(theirs + other for other in self.others))


@final
@dataclass(frozen=True)
class TapsBeside(Part):
    """The taps of several convolutions, concatenated by channel, of `widths` channels each: see `Taps`."""

    others: tuple[str, ...]
    widths: tuple[int, ...]

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return self.others

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

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, others=tuple(theirs + other for other in self.others))


@final
@dataclass(frozen=True)
class Beside(Part):
    """Tensors of equal widths, concatenated along the last axis."""

    others: tuple[str, ...]

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return self.others

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

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, others=tuple(theirs + other for other in self.others))


@final
@dataclass(frozen=True)
class WithFirstRow(Part):
    """A table, to each row of which the first row of another, of `rows` rows, is added. It is not written back."""

    others: tuple[str, str]
    rows: int

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return self.others

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

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, others=(theirs + self.others[0], theirs + self.others[1]))


@final
@dataclass(frozen=True)
class Vectors(Part):
    """Rows of a matrix (n, D), each of which is a tensor (1, 1, D) there."""

    others: tuple[str, ...]

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return self.others

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

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, others=tuple(theirs + other for other in self.others))


@final
@dataclass(frozen=True, eq=False)
class Rows(Part):
    """Rows of several matrices below each other: of each, those of an index; it has `totals` rows in all."""

    others: tuple[str, ...]
    indices: tuple[Tensor, ...]
    totals: tuple[int, ...]

    @property
    @override
    def theirs(self) -> tuple[str, ...]:
        return self.others

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

    @override
    def under(self, ours: str, theirs: str) -> Self:
        return replace(self, ours=ours + self.ours, others=tuple(theirs + other for other in self.others))


def of_layers(parts: Sequence[Part], ours: str, theirs: str, layers: int) -> list[Part]:
    """The lines of a layer for each layer; `ours` and `theirs` are prefixes such as `layers.{}.`."""
    return [part.under(ours.format(layer), theirs.format(layer)) for layer in range(layers) for part in parts]
