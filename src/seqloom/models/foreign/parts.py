"""How a parameter of ours is made of theirs, and theirs of ours: one line of a family's table, read both ways.

    Same("norm.weight", "model.norm.weight")                    the same tensor
    Same("norm.weight", "model.norm.weight", centre=1.0)        theirs plus 1: norms that multiply by 1 + weight
    Transposed("w_1.weight", "c_fc.weight")                         theirs is (inputs, outputs)
    ByHead("w_qkv.weight", "query_key_value.weight", 4, 3)      theirs head by head, ours kind by kind
    Taps("conv.weight", "conv1d.weight")                        theirs (E, 1, W) oldest first, ours (W, E) latest first

Of several tensors of theirs: `fused_parts`.
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
class Transposed(_One):
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


def of_layers(parts: Sequence[Part], ours: str, theirs: str, layers: int) -> list[Part]:
    """The lines of a layer for each layer; `ours` and `theirs` are prefixes such as `layers.{}.`."""
    return [part.under(ours.format(layer), theirs.format(layer)) for layer in range(layers) for part in parts]
