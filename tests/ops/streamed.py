"""Every op with a state, in the form in which tests call it: a function of its inputs along time, and these inputs.

`STREAMED[op][n](draw, B, T)` returns `run(*inputs, state=None, lengths=None) → y (B, T, …), state` and the inputs, each
(B, T, …), of numbers that `draw` makes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.delta_steps import delta_steps
from seqloom.ops.linear_decay import decay
from seqloom.ops.op import CHANNELS, Draw
from seqloom.ops.random_features import positive
from seqloom.ops.random_features.reading import average
from seqloom.ops.recurrence import elman, gru, gru_after, lstm
from seqloom.ops.recurrence.slstm import slstm
from seqloom.ops.scan import scan
from seqloom.ops.scan.selective_scan import selective
from seqloom.ops.state_space import low_rank, run_joint, single
from seqloom.ops.state_space.diagonal_states import respond
from seqloom.ops.wkv_average import wkv

Run = Callable[..., tuple[Tensor, Any]]
Streamed = Callable[[Draw, int, int], tuple[Run, tuple[Tensor, ...]]]
WIDTH = CHANNELS // 4


def _decay(decays: tuple[int, ...] | None, draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    """`decays` are the axes of g after rows and tokens, None for g (H,)."""
    fixed = -draw(4).square()

    def run(
        q: Tensor, k: Tensor, v: Tensor, *g: Tensor, state: Tensor | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        log_decay = g[0].transpose(1, 2) if g else fixed
        y, new_state = decay(q, k, v, log_decay, state, lengths=lengths)
        return y.transpose(1, 2), new_state

    inputs = tuple(draw(B, T, 4, WIDTH) for _ in range(3))
    return run, inputs if decays is None else (*inputs, -draw(B, T, *decays).square())


def _delta(decays: tuple[int, ...] | None, writes: bool, draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    """`decays` are the axes of g after rows and tokens; keys are so short that the state stays small."""

    def run(*inputs: Tensor, state: Tensor | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v, erase, write, *g = (x.transpose(1, 2) for x in inputs)
        optional = {"write": write if writes else None, "log_decay": g[0] if g else None}
        y, new_state = delta(q, k, v, erase=erase, **optional, state=state, lengths=lengths)
        return y.transpose(1, 2), new_state

    q, k, v, erase, write = (draw(B, T, 4, WIDTH) for _ in range(5))
    inputs = q, k, v, erase / 4, write / 4
    return run, inputs if decays is None else (*inputs, -draw(B, T, *decays).square())


def _delta_steps(steps: int, decays: bool, draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    def run(*inputs: Tensor, state: Tensor | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v, strength, *g = (x.transpose(1, 2) for x in inputs)
        log_decay = g[0] if g else None
        y, new_state = delta_steps(q, k, v, strength, log_decay=log_decay, state=state, lengths=lengths)
        return y.transpose(1, 2), new_state

    k, v = draw(B, T, 4, steps, WIDTH) / 4, draw(B, T, 4, steps, WIDTH)
    inputs = draw(B, T, 4, WIDTH), k, v, draw(B, T, 4, steps).sigmoid()
    return run, (*inputs, -draw(B, T, 4).square()) if decays else inputs


def _scan(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    return scan, (draw(B, T, CHANNELS).tanh(), draw(B, T, CHANNELS))


def _fixed_scan(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    a = torch.polar(draw(CHANNELS).sigmoid(), draw(CHANNELS))
    return partial(scan, a), (torch.complex(draw(B, T, CHANNELS), draw(B, T, CHANNELS)),)


def _selective(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    log_rate, bias, skip = draw(CHANNELS, 16), draw(CHANNELS), draw(CHANNELS)

    def run(u: Tensor, delta: Tensor, b: Tensor, c: Tensor, gate: Tensor, **state: Any) -> tuple[Tensor, Tensor]:
        return selective(u, delta, log_rate, b, c, bias=bias, skip=skip, gate=gate, **state)

    u, step, b, c = draw(B, T, CHANNELS), draw(B, T, CHANNELS), draw(B, T, 16), draw(B, T, 16)
    return run, (u, step, b, c, draw(B, T, CHANNELS))


def _wkv(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    run = partial(wkv, log_rate=draw(CHANNELS), bonus=draw(CHANNELS))
    return run, (draw(B, T, CHANNELS), draw(B, T, CHANNELS))


def _features(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    def run(
        q: Tensor, k: Tensor, v: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor | None]]:
        sums, peak = (None, None) if state is None else state
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        q_features, k_features, log_decay, peak = positive(q, k, peak, lengths=lengths)
        y, sums = average(q_features, k_features, v, log_decay, sums, lengths=lengths)
        return y.transpose(1, 2), (sums, peak)

    return run, tuple(draw(B, T, 4, WIDTH) for _ in range(3))


def _cell(cell: Run, gates: int, inner: bool, draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    x = draw(B, T, CHANNELS)
    weights = [draw(gates * WIDTH, CHANNELS) / 8, draw(gates * WIDTH), draw(gates * WIDTH, WIDTH) / 4]
    weights += [draw(WIDTH)] if inner else []

    def run(x: Tensor, **state: Any) -> tuple[Tensor, Any]:
        return cell(x, *weights, **state)

    return run, (x,)


def _slstm(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    w, bias = draw(4, WIDTH, 4 * WIDTH) / 4, draw(4, 4 * WIDTH)

    def run(a: Tensor, **state: Any) -> tuple[Tensor, Any]:
        return slstm(a, w, bias, **state)

    return run, (draw(B, T, 4, CHANNELS),)


def _respond(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    D = N = CHANNELS
    system = torch.complex(-draw(D, N).exp(), draw(D, N)), torch.complex(draw(D, N), draw(D, N))
    return partial(respond, system=lambda: system), (draw(B, T, CHANNELS),)


def _joint(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    step = draw().sigmoid()
    system = draw(8, 8) / 8 - torch.eye(8), draw(8, CHANNELS), draw(CHANNELS, 8), step
    return partial(run_joint, system=lambda: system, method="bilinear"), (draw(B, T, CHANNELS),)


def _single(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    step = draw(CHANNELS).sigmoid()
    system = draw(8, 8) / 8 - torch.eye(8), draw(8), draw(CHANNELS, 2, 8), step
    return partial(single, system=lambda: system, method="bilinear"), (draw(B, T, CHANNELS),)


def _low_rank(draw: Draw, B: int, T: int) -> tuple[Run, tuple[Tensor, ...]]:
    eigenvalues = torch.complex(-draw(4).exp(), draw(4))
    p, b, c = (torch.complex(draw(*shape), draw(*shape)) for shape in ((4,), (4,), (CHANNELS, 4)))
    system = eigenvalues, p, b, c, draw(CHANNELS).sigmoid()
    return partial(low_rank, system=lambda: system), (draw(B, T, CHANNELS),)


STREAMED: dict[str, tuple[Streamed, ...]] = {
    "delta_rule": (
        partial(_delta, None, False),
        partial(_delta, (4,), False),
        partial(_delta, (4, WIDTH), True),
    ),
    "delta_steps": (partial(_delta_steps, 2, True), partial(_delta_steps, 3, False)),
    "diagonal_states": (_respond,),
    "linear_decay": (partial(_decay, None), partial(_decay, (4,)), partial(_decay, (4, WIDTH))),
    "random_features": (_features,),
    "recurrence": (
        partial(_cell, elman, 1, False),
        partial(_cell, lstm, 4, False),
        partial(_cell, gru, 3, False),
        partial(_cell, gru_after, 3, True),
    ),
    "scans": (_scan, _fixed_scan),
    "selective_scan": (_selective,),
    "slstm": (_slstm,),
    "state_space": (_joint, _single, _low_rank),
    "wkv_average": (_wkv,),
}
"""the forms of each op that carries a state, by its name"""
