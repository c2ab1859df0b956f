"""The inputs that the queries of a piece can read in a layer with a `CompressedPast`.

They are the last M inputs before the piece, from the ring of the state; the inputs of the piece; and the slots, into
which older blocks of inputs were compressed. In each row the next block to compress begins where the last one ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.core.state import Length
from seqloom.ops.past import ring
from seqloom.ops.past.compressed_past import SLOT, CompressedPast


@final
@dataclass(frozen=True)
class PastInputs:
    """The inputs of a piece of a text, those before it, and the slots."""

    past: CompressedPast
    length: Length
    """tokens before the piece"""
    now: Int[Tensor, "B T"]
    """the times of the piece"""
    x: Float[Tensor, "B N D"]
    """inputs: the last M before the piece, in the order of the ring, then those of the piece"""
    then: Int[Tensor, "B N"]
    """their times"""
    slots: Float[Tensor, "B S D"]
    """compressed blocks from before the piece"""
    slot_then: Int[Tensor, "B S"]
    """times of the slots in the count of `CompressedPast`, -1 for an empty slot"""

    @property
    def first(self) -> Int[Tensor, " B"]:
        """The number of the next block to be compressed."""
        return self.past.blocks_at(self.length.tokens)

    @property
    def earlier(self) -> int:
        """The number of inputs before the piece."""
        return self.x.shape[1] - self.now.shape[1]

    def new(self, T: int, even: bool) -> int:
        """The number of blocks that T more tokens complete.

        Exact if all rows get T tokens (`even`) and are equally long; otherwise an upper bound.
        """
        bound = self.length.bound
        if bound is not None and even and self.length.even:
            return self.past.blocks(bound + T) - self.past.blocks(bound)
        most_blocks = -(-T // self.past.rate)
        return most_blocks if bound is None else min(most_blocks, self.past.blocks(bound + T))

    def farthest(self) -> int:
        """The largest distance from a query of the piece to an input or slot that it reads."""
        if self.length.bound is None:
            return self.past.memory + self.past.slots
        last = self.length.bound + self.now.shape[1] - 1
        return min(last, self.past.memory) + min(self.past.blocks(last), self.past.slots)

    def times(self, count: int, dilation: int = 1) -> Int[Tensor, "B P C"]:
        """The times of the tokens of the next `count` blocks: every `dilation`-th from the first of each block."""
        block = self.first[:, None] + torch.arange(count, device=self.x.device)
        return block[:, :, None] * self.past.rate + dilation * torch.arange(self.past.rate, device=self.x.device)

    def block_values(self, values: Float[Tensor, "B N D"], count: int, dilation: int = 1) -> Float[Tensor, "B P C D"]:
        """The values (one per input) of the next `count` blocks; arbitrary ones where a block is not complete yet."""
        times, length = self.times(count, dilation).flatten(1), self.length.tokens[:, None]
        index = torch.where(times < length, times % self.past.memory, self.earlier + times - length)
        index = index.clamp(0, self.x.shape[1] - 1)
        return ring.pick(values, index).unflatten(1, (count, self.past.rate))


def whole(past: CompressedPast, x: Stream) -> PastInputs:
    """The inputs of a text from its first token, with nothing before them."""
    length = Length(torch.zeros(len(x), dtype=torch.long, device=x.device), 0, True)
    now = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
    return PastInputs(past, length, now, x, now, x[:, :0], now[:, :0])


def read_on(past: CompressedPast, x: Stream, state: Mapping[str, Tensor], length: Length) -> PastInputs:
    """The inputs of the piece x (B, T, D) after `length` tokens, whose inputs and slots are entries of the state."""
    count = past.blocks_at(length.tokens)
    filled = ring.count_filled(past.memory, length)
    filled_slots = ring.count_filled(
        past.slots, Length(count, None if length.bound is None else past.blocks(length.bound))
    )
    now = length.tokens[:, None] + torch.arange(x.shape[1], device=x.device)
    block = ring.times(past.slots, count)[:, :filled_slots]
    return PastInputs(
        past,
        length,
        now,
        torch.cat([state["x"][:, :filled].to(x.dtype), x], 1),
        torch.cat([ring.times(past.memory, length.tokens)[:, :filled], now], 1),
        state["slots"][:, :filled_slots].to(x.dtype),
        torch.where(block < 0, -1, SLOT + block),
    )
