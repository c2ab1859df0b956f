"""Random numbers that do not depend on how a batch is shared: its rows by processes, a row by pieces or processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Piece(NamedTuple):
    """Where a piece of T tokens lies in a row of `tokens`: it begins at token `first`, from 0."""

    first: int
    tokens: int


class RowDraws(nn.Module):
    """A layer that draws numbers for all rows of a batch and uses those of its rows, whatever the number of `ranks`."""

    rank: int = 0
    ranks: int = 1
    """processes that share the rows of a batch evenly, in order; this process is number `rank`"""
    piece: Piece | None = None
    """the part of each row that is read, where rows are read in pieces"""
    _call: int = 0
    """how often it was called for this piece: a layer that is used twice draws twice"""
    _began: dict[int, Tensor]
    """the state of torch's generator before each of its calls drew for whole rows"""

    def uniform(self, like: Tensor) -> Tensor:
        """Numbers in [0, 1) of the shape and device of `like` (B, …)."""
        wide = torch.promote_types(like.dtype, torch.float32)
        return torch.rand(self.ranks, *like.shape, dtype=wide, device=like.device)[self.rank]

    def draw(self, like: Tensor, numbers: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
        """What `numbers` draws, given the shape of all rows, for those of `like` (B, …), or (B, T, …) in pieces.

        The first piece of a row that is read here draws for whole rows, as a pass without pieces does; later ones
        repeat these draws.
        """
        if self.piece is None:
            return numbers((self.ranks, *like.shape))[self.rank]
        first, tokens = self.piece
        length = like.shape[1]
        shape = (self.ranks, len(like), tokens, *like.shape[2:])
        call = self._call
        self._call += 1
        if call in self._began:
            with _repeat_draws(self._began[call], like.device):
                drawn = numbers(shape)
        else:
            self._began[call] = _generator_state(like.device)
            drawn = numbers(shape)
        return drawn[self.rank, :, first : first + length]


@contextmanager
def read_piece(module: nn.Module, piece: Piece, *, begins: bool) -> Iterator[None]:
    """Inside the block, each layer that draws numbers uses those for a piece of each row.

    With `begins` it is the first piece of these rows that is read here.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, RowDraws)]
    for layer in layers:
        layer.piece = piece
        layer._call = 0
        if begins:
            layer._began = {}
    try:
        yield
    finally:
        for layer in layers:
            layer.piece = None


@contextmanager
def _repeat_draws(state: Tensor, device: torch.device) -> Iterator[None]:
    """Inside the block, torch's generator of a device goes on from an earlier state; afterwards it is as before."""
    before = _generator_state(device)
    _set_generator_state(state, device)
    try:
        yield
    finally:
        _set_generator_state(before, device)


def _generator_state(device: torch.device) -> Tensor:
    """The state of torch's generator of a device."""
    return torch.get_rng_state() if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)


def _set_generator_state(state: Tensor, device: torch.device) -> None:
    """Sets the state of torch's generator of a device."""
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)
