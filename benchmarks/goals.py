"""The speed goals of the Extractors: upper bounds on the ratio of their time to attention's.

A sublayer is timed forward and backward in float32, next to causal attention with its projections; a step is a whole
training step of the paper's Table 1 model, next to the same model with attention. The goals are for 2 CPU cores.
"""

MIXERS = ("she", "he", "we", "me")
Shape = tuple[int, int, int]
"""rows, tokens, channels"""


def _of(*shares: float | None) -> dict[str, float]:
    return {mixer: share for mixer, share in zip(MIXERS, shares, strict=True) if share is not None}


SUBLAYER: dict[Shape, dict[int, dict[str, float]]] = {
    (64, 128, 128): {32: _of(0.22, 0.11, 0.08, 0.035), 1: _of(1.0, 0.5, 0.35, 0.15)},
    (64, 32, 128): {1: _of(1.5, 0.6, 0.45, 0.14)},
    (16, 512, 256): {4: _of(1.0, 0.4, 0.25, 0.12)},
    (4, 2048, 256): {4: _of(1.8, 0.2, 0.16, 0.08)},
    (1, 8192, 256): {4: _of(None, 0.08, 0.06, 0.025)},
    (1, 32768, 128): {1: _of(None, 0.015, 0.012, 0.007)},
}
"""by shape and by the heads of attention"""
PORTABLE = {((64, 128, 128), 32): 0.36, ((64, 128, 128), 1): 1.6}
"""SHE's goals without native code; all others are `LOOSER` times those with it"""
LOOSER = 1.7
STEP = {32: _of(0.5, 0.38, 0.33, 0.3), 1: _of(1.1, 1.0, 1.0, 1.0)}
"""by the heads of attention"""
BF16 = _of(1.0, 1.0, 1.0, None)
"""under autocast, against itself in float32; ME has no matrix that autocast would shorten"""


def sublayer(mixer: str, shape: Shape, heads: int, portable: bool = False) -> float | None:
    """What the sublayer may take of attention's time; None where nothing was promised."""
    goal = SUBLAYER.get(shape, {}).get(heads, {}).get(mixer)
    if goal is None or not portable:
        return goal
    return PORTABLE[shape, heads] if mixer == "she" and (shape, heads) in PORTABLE else LOOSER * goal


def step(mixer: str, heads: int) -> float | None:
    """What the whole step may take of attention's."""
    return STEP.get(heads, {}).get(mixer)


def able(mixer: str, shape: Shape) -> bool:
    """Whether it is measured at all: SHE's taps alone would fill the memory at the longest shapes."""
    return mixer != "she" or shape[1] * shape[2] ** 2 <= 2**28


def heads(shape: Shape) -> list[int]:
    """Of the attention to race against: those of the goals, and always 1."""
    return sorted({*SUBLAYER.get(shape, {}), 1}, reverse=True)


def met(median: float, goal: float | None) -> bool | None:
    """Whether the median meets the goal; None without one."""
    return None if goal is None else median <= goal
