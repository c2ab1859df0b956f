"""The positions of tokens where a mixer has weights for so many positions and no more."""

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


def within_after(kind: str, context: int, length: Length, lengths: Tensor | int, most: int) -> None:
    """The same after each row reads `lengths` tokens more, `most` at most; not checked where values cannot be read."""
    if length.bound is not None and length.bound + most > context:  # else no value is read back from the device
        within(kind, context, int((length.tokens + lengths).max()))


def positions(
    kind: str, context: int, x: Stream, state: State | None = None, lengths: Lengths | None = None
) -> Positions:
    """The positions of the tokens of x (B, T, D), of which each row holds `lengths`: (B, T), without a state (1, T).

    Raises ValueError where there are more than `context`; without a state dropped tokens count as well.
    """
    T = x.shape[1]
    if state is None:
        within(kind, context, T)
        return torch.arange(T, device=x.device)[None]
    within_after(kind, context, length_of(state), T if lengths is None else lengths, T)
    first = state["length"][:, None]
    return first if T == 1 else first + torch.arange(T, device=x.device)
