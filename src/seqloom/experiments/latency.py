"""How long a model takes for one more token, from a state that has read many.

    seconds = latency(model, long_context(model, N).state, N)

Most mixers take as long for each of the next few tokens: they are read again and again from position N. An Extractor
pays ahead in blocks, every second token one of one input, every fourth one of two, …, once in P tokens one of P, and
its time is the mean over all P (`ops.lag_sum.online.blocks`). Where P tokens would take too long, S of them are timed,
S a power of two, and tokens with a block of S or more each alone:

    (P/S · run(S-1) + Σ_{U = S, 2S, … P/2} P/2U · token(U) + token(P)) / P
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.analysis.measure import seconds
from seqloom.core.model import Model
from seqloom.core.state import ModelState
from seqloom.experiments.long_context import counting
from seqloom.ops.lag_sum.online.blocks import longest

MOST = 2.0
"""seconds that are measured for, about"""
TOKENS = 16
"""tokens of one run, where all tokens take the same time"""
LEAST, REPEATS = 3, 15
"""runs whose median is taken"""


@torch.no_grad()
def latency(model: Model, state: ModelState, tokens: int) -> float:
    """Seconds a token, a median, with `step(reuse=True)`: as generation does it. The state is given up."""
    reading = _Reading(model, state)
    reading(1)  # lazy loading and set-up at the first token are not timed
    if reading.origins:
        return _mean(reading, longest(model.config.context))
    many = max(1, min(TOKENS, int(MOST / LEAST / _once(lambda: reading(1)))))

    def run() -> None:
        reading.state = counting(reading.state, tokens)
        reading(many)

    return _median(run) / many


class _Reading:
    """A function that reads a number of further tokens."""

    def __init__(self, model: Model, state: ModelState) -> None:
        self.model, self.state = model, state
        drawn = torch.randint(model.config.vocab, (TOKENS, 1), generator=torch.Generator().manual_seed(1))
        self.ids = drawn.to(model.device)

    @property
    def origins(self) -> list[tuple[Tensor, Tensor]]:
        """The start of each layer's schedule of blocks, and the number of tokens it has read."""
        parts = (part for layer in self.state.layers for part in layer)
        return [
            (tensor, part["length"])
            for part in parts
            for name, tensor in part.items()
            if name.split(".")[-1] == "origin"
        ]

    def at(self, position: int) -> None:
        """Makes the next token the one at that position of the schedule, from 1."""
        for origin, length in self.origins:
            origin.copy_(length + 1 - position)

    def __call__(self, tokens: int) -> None:
        for n in range(tokens):
            _, self.state = self.model.step(self.ids[n % TOKENS], self.state, reuse=True)


def _mean(reading: _Reading, P: int) -> float:
    """Seconds a token, over a whole period of P."""

    def from_first(tokens: int) -> Callable[[], None]:
        def run() -> None:
            reading.at(1)
            reading(tokens)

        return run

    def alone(size: int) -> Callable[[], None]:
        def run() -> None:
            reading.at(size)
            reading(1)

        return run

    probe = min(P, 2 * TOKENS)
    seconds = _once(from_first(probe)) / probe
    S = P
    while S > 2 and S * seconds > MOST / LEAST:
        S //= 2
    sizes = [S << k for k in range((P // S).bit_length())]
    span = _median(from_first(S - 1)) if S > 1 else 0.0
    blocks = sum((P // (2 * U) or 1) * _median(alone(U)) for U in sizes)
    return (P // S * span + blocks) / P


def _median(run: Callable[[], object]) -> float:
    """The median of the runs that fit into MOST seconds; of a single run, after the first, where that one is long."""
    took = _once(run)
    return took if took > MOST else seconds(run, max(LEAST, min(REPEATS, int(MOST / took)))).median


def _once(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter() - began
