"""A ring of the last tokens: slot s of C holds the token at the latest time ≡ s (mod C).

While at most C tokens have been read, the ring has not wrapped and is a growing buffer; so the same code serves windows
and caches. Rows may have read different numbers of tokens.
"""

from typing import TypeAlias

import torch
from jaxtyping import Int, Num
from torch import Tensor

from seqloom.core.shapes import Lengths, Token
from seqloom.core.state import Length

Ring: TypeAlias = Num[Tensor, "B C D"]
"""of any dtype: keys, or the numbers of buckets"""


def times(size: int, length: Lengths) -> Int[Tensor, "B C"]:
    """The time of the token in each slot after `length` (B,) tokens; negative where a slot is still empty."""
    slot = torch.arange(size, device=length.device)
    last = length[:, None] - 1
    return last - (last - slot) % max(size, 1)


def count_filled(size: int, length: Length) -> int:
    """The most slots of `size` that a row may have written; all if that is not known."""
    return size if length.bound is None else min(size, length.bound)


def write(ring: Ring, length: Lengths, x: Num[Tensor, "B T D"], lengths: Lengths | None = None) -> Ring:
    """The ring (B, C, D) after each row read x (B, T, D), or its first `lengths` (B,) tokens: a new tensor."""
    if ring.shape[1] == 0 or x.shape[1] == 0:
        return ring
    then = times(ring.shape[1], length + (x.shape[1] if lengths is None else lengths))
    new = then - length[:, None]  # its index in x
    source = pick(x, new.clamp(0, x.shape[1] - 1)).to(ring.dtype)
    return torch.where((new >= 0)[:, :, None], source, ring)


def write_(ring: Ring, length: Lengths, token: Token) -> Ring:
    """One token (B, D) written into the ring in place, without gradients; returns it."""
    if ring.shape[1]:
        ring[torch.arange(len(ring), device=ring.device), length % ring.shape[1]] = token.to(ring.dtype)
    return ring


def latest(ring: Ring, length: Lengths, count: int) -> Num[Tensor, "B N D"]:
    """The last `count` tokens in the order of time (B, count, D), the newest last; 0 for times before the first."""
    if count == 0:
        return ring[:, :0]
    then = length[:, None] - count + torch.arange(count, device=ring.device)
    return torch.where((then >= 0)[:, :, None], pick(ring, then % ring.shape[1]), 0.0)


def pick(x: Num[Tensor, "B T D"], positions: Int[Tensor, "B N"]) -> Num[Tensor, "B N D"]:
    """The tokens of each row at these slots.

    On a CPU up to 8 times faster than `gather`, since it copies whole tokens.
    """
    first = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
    return x.flatten(0, 1).index_select(0, (first + positions).flatten()).unflatten(0, positions.shape)
