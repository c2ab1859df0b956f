"""Positions of tokens for mixers with weights for a limited number of positions, and the error beyond it."""

from typing import TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Length, State, length_of

Positions: TypeAlias = Int[Tensor, "#B T"]
"""the position of each query, from 0"""


def within(kind: str, context: int, tokens: int) -> None:
    """Raises ValueError where there are more tokens than weights."""
    if tokens > context:
        raise ValueError(
            f"{kind} has weights for {context} positions, not for {tokens}: read at most {context} tokens, or build it "
            "with a larger context"
        )


def within_after(kind: str, context: int, length: Length, lengths: Tensor | int, max_length: int) -> None:
    """As `within`, after each row reads `lengths` more tokens, none more than `max_length`.

    Not checked where values are unknown.
    """
    if length.bound is not None and length.bound + max_length > context:  # only then a value is read from the device
        within(kind, context, int((length.tokens + lengths).max()))


def positions(
    kind: str, context: int, x: Stream, state: State | None = None, lengths: Lengths | None = None
) -> Positions:
    """The positions of the tokens of x (B, T, D), from 0: (B, T) after a state, (1, T) without one.

    `lengths` (B,) are the tokens of each row. Raises ValueError where there are more than `context`; without a state
    padding counts as well.
    """
    T = x.shape[1]
    if state is None:
        within(kind, context, T)
        return torch.arange(T, device=x.device)[None]
    within_after(kind, context, length_of(state), T if lengths is None else lengths, T)
    first = state["length"][:, None]
    return first if T == 1 else first + torch.arange(T, device=x.device)
