"""The inputs that a layer with a `CompressedPast` has: those kept in a ring, those of a piece, and slots.

The blocks that a piece lets be compressed are gathered from there: each row's begin where its last compressed ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.core.state import Length
from seqloom.ops import ring
from seqloom.ops.compressed_past import SLOT, CompressedPast


@final
@dataclass(frozen=True)
class PastInputs:
    """A piece of a text with what came before it."""

    past: CompressedPast
    length: Length
    """tokens before the piece"""
    now: Int[Tensor, "B T"]
    """the times of the piece"""
    x: Float[Tensor, "B N D"]
    """inputs: the last M before the piece, as they lie in the ring, then the piece"""
    then: Int[Tensor, "B N"]
    """their times"""
    slots: Float[Tensor, "B S D"]
    """what was compressed before"""
    slot_then: Int[Tensor, "B S"]
    """their times as `CompressedPast` counts them, -1 where there is none"""

    @property
    def first(self) -> Int[Tensor, " B"]:
        """The number of the next block to be compressed."""
        return self.past.blocks_at(self.length.tokens)

    @property
    def held(self) -> int:
        """Inputs before the piece."""
        return self.x.shape[1] - self.now.shape[1]

    def new(self, T: int, even: bool) -> int:
        """The blocks that T tokens after `length` let be compressed, at most; exactly where rows are even."""
        bound = self.length.bound
        if bound is not None and even and self.length.even:
            return self.past.blocks(bound + T) - self.past.blocks(bound)
        most = -(-T // self.past.rate)
        return most if bound is None else min(most, self.past.blocks(bound + T))

    def farthest(self) -> int:
        """The largest distance that a query of the piece may be from what it sees."""
        if self.length.bound is None:
            return self.past.memory + self.past.slots
        last = self.length.bound + self.now.shape[1] - 1
        return min(last, self.past.memory) + min(self.past.blocks(last), self.past.slots)

    def times(self, count: int, dilation: int = 1) -> Int[Tensor, "B P C"]:
        """The times of the tokens that the next `count` blocks are made of: every d-th from each block's first."""
        block = self.first[:, None] + torch.arange(count, device=self.x.device)
        return block[:, :, None] * self.past.rate + dilation * torch.arange(self.past.rate, device=self.x.device)

    def of_blocks(self, values: Float[Tensor, "B N D"], count: int, dilation: int = 1) -> Float[Tensor, "B P C D"]:
        """The values, one for each input, of the next `count` blocks; anything where their tokens have not come yet."""
        times, length = self.times(count, dilation).flatten(1), self.length.tokens[:, None]
        place = torch.where(times < length, times % self.past.memory, self.held + times - length)
        place = place.clamp(0, self.x.shape[1] - 1)
        return ring.pick(values, place).unflatten(1, (count, self.past.rate))


def whole(past: CompressedPast, x: Stream) -> PastInputs:
    """A text from its first token."""
    length = Length(torch.zeros(len(x), dtype=torch.long, device=x.device), 0, True)
    now = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
    return PastInputs(past, length, now, x, now, x[:, :0], now[:, :0])


def after(past: CompressedPast, x: Stream, state: Mapping[str, Tensor], length: Length) -> PastInputs:
    """A piece after `length` tokens, whose inputs are `x` of the state, and what of them was compressed its `slots`."""
    count = past.blocks_at(length.tokens)
    held = ring.held(past.memory, length)
    filled = ring.held(past.slots, Length(count, None if length.bound is None else past.blocks(length.bound)))
    now = length.tokens[:, None] + torch.arange(x.shape[1], device=x.device)
    block = ring.times(past.slots, count)[:, :filled]
    return PastInputs(
        past,
        length,
        now,
        torch.cat([state["x"][:, :held].to(x.dtype), x], 1),
        torch.cat([ring.times(past.memory, length.tokens)[:, :held], now], 1),
        state["slots"][:, :filled].to(x.dtype),
        torch.where(block < 0, -1, SLOT + block),
    )
