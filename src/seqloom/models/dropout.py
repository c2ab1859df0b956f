"""Dropout with four draws from each 64 random bits: on a CPU torch draws one number per position, which takes far
longer.

    y = x ∘ m / (1 - p),   m = 0 with probability p, else 1;   p to the nearest 1/65536, so 0.1 is 0.100006

Where several processes share the rows of a batch, each draws m for all rows and takes its own, so that m does not
depend on their number; where rows are read in pieces, each piece draws for whole rows (`core.row_draws`).

Source: Srivastava et al., Dropout, JMLR 15, 2014, with the scale in training as is usual. Nothing else differs.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from seqloom.core.rest import in_training
from seqloom.core.row_draws import RowDraws

LEVELS = 1 << 16
"""the values that a draw of 16 bits can have"""


@final
class Dropout(RowDraws, nn.Dropout):
    """torch's layer, with its own draws on a CPU outside of graphs; they come from torch's generator as well."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, …) → (B, …); returns the input itself if nothing is dropped."""
        if not in_training(self) or self.p == 0:
            return input
        if input.device.type == "cpu" and not torch.compiler.is_compiling():
            keep = self.draw(input, _draw_bits) >= round(self.p * LEVELS) - LEVELS // 2
            return input * keep.to(input.dtype).mul_(1 / (1 - self.p))
        if self.ranks == 1 and self.piece is None:
            return nn.functional.dropout(input, self.p)
        keep = self.draw(input, lambda shape: nn.functional.dropout(input.new_ones(shape), self.p)) != 0
        return torch.where(keep, input * (1 / (1 - self.p)), 0.0)


def _draw_bits(shape: tuple[int, ...]) -> Tensor:
    """Random numbers of 16 bits, four from each that torch's generator draws."""
    count = math.prod(shape)
    words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return words.view(torch.int16)[:count].view(shape)


@contextmanager
def share_rows(module: nn.Module, rank: int, ranks: int) -> Iterator[None]:
    """Inside the block, each layer that draws numbers for rows uses those for the rows of process `rank` of `ranks`."""
    layers = [layer for layer in module.modules() if isinstance(layer, RowDraws)]
    for layer in layers:
        layer.rank = rank
        layer.ranks = ranks
    try:
        yield
    finally:
        for layer in layers:
            layer.rank = 0
            layer.ranks = 1
