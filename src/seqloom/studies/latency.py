"""The time that a model takes for one more token after a long text.

    seconds = latency(model, long_context(model, N).state, N)

Most mixers take the same time for each of the next few tokens, so tokens after position N are timed repeatedly. An
Extractor computes sums ahead in blocks: after every second token a block of one input, after every fourth a block of
two, …, after P tokens a block of P (`ops.lag_sum.online.blocks`); its time is the mean over P tokens. Where P tokens
take too long, a run of S tokens is timed, S a power of two, and each token with a block of S inputs or more separately:

    (P/S · run(S-1) + Σ_{U = S, 2S, … P/2} P/2U · token(U) + token(P)) / P
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.analysis.measure import seconds
from seqloom.core.model import Model
from seqloom.core.state import ModelState
from seqloom.ops.lag_sum.online.blocks import longest
from seqloom.studies.long_context import counting

MOST = 2.0
"""about how many seconds a measurement takes"""
TOKENS = 16
"""tokens of one timed run, of models whose tokens all take the same time"""
LEAST, REPEATS = 3, 15
"""the fewest and the most runs of which the median is taken"""


@torch.no_grad()
def latency(model: Model, state: ModelState, tokens: int) -> float:
    """Seconds per token, a median, with `step(reuse=True)` as in generation. The state must not be used afterwards."""
    reading = _Reading(model, state)
    reading(1)  # lazy loading and set-up at the first token are not timed
    if reading.origins:
        return _mean(reading, longest(model.config.context))
    count = max(1, min(TOKENS, int(MOST / LEAST / _once(lambda: reading(1)))))

    def run() -> None:
        reading.state = counting(reading.state, tokens)
        reading(count)

    return _median(run) / count


class _Reading:
    """Reads a number of further tokens when it is called."""

    def __init__(self, model: Model, state: ModelState) -> None:
        self.model, self.state = model, state
        drawn = torch.randint(model.config.vocab, (TOKENS, 1), generator=torch.Generator().manual_seed(1))
        self.ids = drawn.to(model.device)

    @property
    def origins(self) -> list[tuple[Tensor, Tensor]]:
        """For each layer with a schedule of blocks, the start of the schedule and the number of tokens read."""
        parts = (part for layer in self.state.layers for part in layer)
        return [
            (tensor, part["length"])
            for part in parts
            for name, tensor in part.items()
            if name.split(".")[-1] == "origin"
        ]

    def at(self, position: int) -> None:
        """Sets the next token to be number `position`, from 1, of the schedule of blocks."""
        for origin, length in self.origins:
            origin.copy_(length + 1 - position)

    def __call__(self, tokens: int) -> None:
        for n in range(tokens):
            _, self.state = self.model.step(self.ids[n % TOKENS], self.state, reuse=True)


def _mean(reading: _Reading, P: int) -> float:
    """Seconds per token, the mean over a period of P tokens."""

    def from_first(tokens: int) -> Callable[[], None]:
        def run() -> None:
            reading.at(1)
            reading(tokens)

        return run

    def time_size(size: int) -> Callable[[], None]:
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
    run_seconds = _median(from_first(S - 1)) if S > 1 else 0.0
    # in P tokens a block of U inputs follows P / 2U times, the block of P inputs once
    block_seconds = sum((P // (2 * U) if U < P else 1) * _median(time_size(U)) for U in sizes)
    return (P // S * run_seconds + block_seconds) / P


def _median(run: Callable[[], object]) -> float:
    """The median time of as many runs as fit into MOST seconds, without the first run; at least one."""
    first = _once(run)
    return first if first > MOST else seconds(run, max(LEAST, min(REPEATS, int(MOST / first)))).median


def _once(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter() - began
