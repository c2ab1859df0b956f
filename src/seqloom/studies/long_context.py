"""A model's state after N tokens, or, where reading them takes too long, one with the same sizes that has read fewer.

    state, read = long_context(model, 65_536)

The text is read in pieces, as `generate --mode stream` reads a prompt. Where that would take longer than `LIMIT`, the
rest is not read, and `length` of the state is set to N: entries for tokens that were not read are 0. A next token takes
as long as from a true state, because a mixer's work does not depend on the values in its state. This holds if the state
had room for all N tokens from the start and did not grow while reading; otherwise it is an error.
"""

import statistics
import time
from typing import NamedTuple

import torch

from seqloom.core.model import Model
from seqloom.core.state import ModelState, State, flat
from seqloom.generation.modes import PIECE

LIMIT = 20.0
"""the most seconds to read a text, as estimated from the pieces read so far"""


class Reached(NamedTuple):
    """A state of length N, and the number of tokens that were really read."""

    state: ModelState
    read: int


@torch.no_grad()
def long_context(model: Model, tokens: int, *, room: int = 0, limit: float = LIMIT) -> Reached:
    """The state of one row after `tokens` tokens, with room for `room` more.

    ValueError where reading takes longer than `limit` seconds and cannot be left out.
    """
    device = model.device
    text = torch.randint(model.config.vocab, (1, tokens), generator=torch.Generator().manual_seed(0)).to(device)
    state = model.start(1, capacity=tokens + room)
    shapes = _shapes(state)
    times: list[float] = []
    read = 0
    for piece in text.split(PIECE, 1):
        before = time.perf_counter()
        _, state = model.read(piece, state)
        times.append(time.perf_counter() - before)
        read += piece.shape[1]
        estimate = sum(times) + statistics.median_low(times[-3:]) * (tokens - read) / PIECE
        if len(times) > 1 and estimate > limit:  # the first piece, which includes set-up, does not count
            break
    if read < tokens:
        if _shapes(state) != shapes:
            raise ValueError(f"reading {tokens:,} tokens would take {estimate:,.0f} seconds, longer than {limit:g}")
        state = counting(state, tokens)
    return Reached(state, read)


def counting(state: ModelState, tokens: int) -> ModelState:
    """The same state, in the same tensors, with its length set to `tokens`."""

    def part(value: State) -> State:
        return State({**value, "length": torch.full_like(value["length"], tokens)}, tokens, True)

    return ModelState(tuple(tuple(part(entry) for entry in layer) for layer in state.layers), part(state.extra))


def _shapes(state: ModelState) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in flat(state).items()}
