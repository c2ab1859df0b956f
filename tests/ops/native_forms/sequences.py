"""Calls of C that read a sequence after a state, or sum over lags."""

from collections.abc import Iterator
from functools import partial

import torch

from seqloom.ops import delta_rule, lag_sum, linear_decay, wkv_average
from seqloom.ops import scan as scans
from seqloom.ops.backends import forced_backend
from seqloom.ops.delta_rule import native as rule_in_c
from seqloom.ops.recurrence import slstm
from seqloom.ops.scan.selective_scan import selective
from tests.ops.cells import CELLS, GATES
from tests.ops.native_forms.form import Draw, Form, Outputs, maybe, with_and_without

ROWS = ((2, 33, 4), (1, 65, 9), (3, 2, 17), (5, 31, 7), (1, 32, 33), (2, 1, 3))
"""B, T and D"""
HEADS = ((2, 33, 2, 4, 17), (1, 31, 1, 9, 4), (1, 65, 3, 17, 9), (2, 2, 2, 3, 31), (1, 32, 1, 6, 33), (1, 1, 4, 5, 7))
"""B, T, H, K and V: saved states are 32 or 64 tokens apart"""


def forms() -> Iterator[Form]:
    """Each of them."""
    for decays in ("no decay", "decay of heads", "decay of channels"):
        for name, given in with_and_without(f"delta_rule {decays},", "write", "state"):
            yield Form(name, "delta_rule", partial(_delta, decays, *given), HEADS)
        for name, given in with_and_without(f"delta_rule without erase, {decays},", "state"):
            yield Form(name, "delta_rule", partial(_added, decays, *given), HEADS[:3])
    for decays in ("no decay", "fixed decay", "decay of heads", "decay of channels"):
        for name, given in with_and_without(f"linear_decay {decays},", "shared keys", "weight", "skip", "state"):
            sizes = ((1, 66, 4, 17), (2, 13, 9, 4), (1, 3, 17, 9), (2, 2, 3, 33))
            yield Form(name, "linear_decay", partial(_decay, decays, *given), sizes)
        for name, given in with_and_without(f"linear_decay of ones, {decays},", "shared keys", "weight", "state"):
            sizes = ((1, 65, 4, 16), (2, 9, 9, 4), (1, 2, 17, 7), (1, 6, 3, 32))
            yield Form(name, "linear_decay", partial(_ones, decays, *given), sizes)
    run = partial(_decay, "decay of heads", True, True, True, True)
    yield Form("linear_decay of whole chunks", "linear_decay", run, ((1, 64, 16, 16), (1, 129, 5, 6), (1, 63, 2, 1)))
    for numbers in ("real", "complex"):
        for name, given in with_and_without(f"scans {numbers},", "fixed", "state"):
            yield Form(name, "scans", partial(_scan, numbers == "complex", *given), ROWS)
    for name, given in with_and_without("selective_scan", "state", "bias", "skip", "gate", "lengths"):
        sizes = ((2, 33, 4, 4), (1, 31, 9, 17), (2, 2, 33, 3), (1, 65, 17, 16), (1, 32, 65, 1), (1, 1, 7, 5))
        yield Form(name, "selective_scan", partial(_selective, *given), sizes)
    for name, given in with_and_without("wkv_average", "log_rate", "bonus", "state"):
        yield Form(name, "wkv_average", partial(_wkv, *given), ROWS, portable="doubling")
    for cell in CELLS:
        for name, given in with_and_without(f"recurrence {cell},", "state"):
            sizes = ((4, 3, 4, 4), (5, 2, 3, 9), (3, 9, 7, 17), (1, 1, 2, 8), (9, 2, 1, 7), (2, 5, 4, 33))
            yield Form(name, "recurrence", partial(_cell, cell, *given), sizes)
    for name, given in with_and_without("slstm", "state"):
        sizes = ((2, 5, 2, 4), (1, 9, 1, 9), (3, 2, 3, 17), (1, 1, 2, 7), (2, 3, 1, 33))
        yield Form(name, "slstm", partial(_slstm, *given), sizes)
    yield from _of_lags()


def _of_lags() -> Iterator[Form]:
    few = ((2, 33, 4, 15), (1, 129, 9, 128), (3, 8, 17, 17), (1, 31, 33, 40), (2, 1, 7, 1), (1, 257, 3, 129))
    for taps in ("of all channels", "of each channel"):
        for name, given in with_and_without(f"lag_sum {taps},", "past"):
            yield Form(name, "lag_sum", partial(_lags, taps, *given), few, portable="direct")
    for taps in ("of all channels", "of each channel", "that mix", "that mix in groups"):
        for name, given in with_and_without(f"spectral lag_sum {taps},", "past"):
            sizes = few if "channel" in taps else ((2, 33, 4, 15), (1, 40, 9, 17), (1, 65, 17, 33), (1, 129, 8, 65))
            sizes = ((2, 33, 8, 15), (1, 40, 18, 17), (1, 65, 34, 33)) if "groups" in taps else sizes
            yield Form(name, "lag_sum", partial(_lags, taps, *given), sizes, native="spectral", portable="direct")


def _delta(decays: str, write: bool, state: bool, draw: Draw, B: int, T: int, H: int, K: int, V: int) -> Outputs:
    q, k, erase = (draw(B, H, T, K) / K**0.5 for _ in range(3))
    v, own_write = draw(B, H, T, V), draw(B, H, T, K) / K**0.5 if write else None
    g, before = _log_decay(decays, draw, B, H, T, K), maybe(draw, state, B, H, K, V)
    return delta_rule.delta(q, k, v, erase=erase, write=own_write, log_decay=g, state=before)


def _added(decays: str, state: bool, draw: Draw, B: int, T: int, H: int, K: int, V: int) -> Outputs:
    """As the decaying sum calls the rule: it erases nothing."""
    q, k, v = draw(B, H, T, K) / K**0.5, draw(B, H, T, K) / K**0.5, draw(B, H, T, V)
    g, before = _log_decay(decays, draw, B, H, T, K), maybe(draw, state, B, H, K, V)
    if forced_backend("delta_rule") == "native":
        return rule_in_c.delta(q, k, v, None, None, g, before)
    return delta_rule.delta(q, k, v, erase=torch.zeros_like(k), log_decay=g, state=before)


def _log_decay(decays: str, draw: Draw, B: int, H: int, T: int, K: int) -> torch.Tensor | None:
    sizes = {"fixed decay": (H,), "decay of heads": (B, H, T), "decay of channels": (B, H, T, K)}.get(decays)
    return None if sizes is None else -draw(*sizes).square() / 4


def _decay(
    decays: str, shared: bool, weight: bool, skip: bool, state: bool, draw: Draw, B: int, T: int, K: int, V: int
) -> Outputs:
    H, G = (4, 2) if shared else (2, 2)
    q, k, v = draw(B, G, T, K) / K**0.5, draw(B, G, T, K) / K**0.5, draw(B, H, T, V)
    g, before = _log_decay(decays, draw, B, H, T, K), maybe(draw, state, B, H, K, V)
    weights = {"weight": maybe(draw, weight, B, H, T), "skip": maybe(draw, skip, H)}
    return linear_decay.decay(q, k, v, g, before, **weights)


def _ones(decays: str, shared: bool, weight: bool, state: bool, draw: Draw, B: int, T: int, K: int, V: int) -> Outputs:
    H, G = (4, 2) if shared else (2, 2)
    q, k, v = draw(B, G, T, K) / K**0.5, draw(B, G, T, K) / K**0.5, draw(B, H, T, V)
    g, before = _log_decay(decays, draw, B, H, T, K), maybe(draw, state, B, H, K, V + 1)
    return linear_decay.decay_with_normalizer(q, k, v, g, before, weight=maybe(draw, weight, B, H, T))


def _scan(paired: bool, fixed: bool, state: bool, draw: Draw, B: int, T: int, N: int) -> Outputs:
    def make(*sizes: int) -> torch.Tensor:
        return torch.complex(draw(*sizes), draw(*sizes)) if paired else draw(*sizes)

    a = make(N) if fixed else make(B, T, N)
    return scans.scan(a / (1 + a.abs()), make(B, T, N), make(B, N) if state else None)


def _selective(
    state: bool, bias: bool, skip: bool, gate: bool, lengths: bool, draw: Draw, B: int, T: int, D: int, N: int
) -> Outputs:
    u, delta, b, c = draw(B, T, D), draw(B, T, D), draw(B, T, N), draw(B, T, N)
    delta = delta if bias else delta.abs() / 2
    given = {"bias": maybe(draw, bias, D), "skip": maybe(draw, skip, D), "gate": maybe(draw, gate, B, T, D)}
    of_rows = torch.tensor([T - T // 3, T, 0][:B]) if lengths else None
    return selective(u, delta, draw(D, N), b, c, maybe(draw, state, B, D, N), lengths=of_rows, **given)


def _wkv(log_rate: bool, bonus: bool, state: bool, draw: Draw, B: int, T: int, D: int) -> Outputs:
    past = torch.stack([draw(B, D), draw(B, D).exp(), draw(B, D)], 1) if state else None
    y, sums = wkv_average.wkv(draw(B, T, D), draw(B, T, D), maybe(draw, log_rate, D), maybe(draw, bonus, D), past)
    numerator, denominator, scale = sums.unbind(1)  # each at a scale of its own
    return y, numerator / denominator, scale + denominator.log()


def _cell(cell: str, state: bool, draw: Draw, B: int, T: int, D: int, N: int) -> Outputs:
    gates = GATES[cell] * N
    weights = [draw(gates, D), draw(gates), draw(gates, N) / N**0.5, *([draw(N)] if cell == "gru_after" else [])]
    before = [draw(B, N) for _ in range(2 if cell == "lstm" else 1)] if state else [None]
    y, after = CELLS[cell](draw(B, T, D), *weights, tuple(before) if len(before) == 2 else before[0])
    return y, *(after if isinstance(after, tuple) else (after,))


def _slstm(state: bool, draw: Draw, B: int, T: int, H: int, K: int) -> Outputs:
    inputs, before = (draw(B, T, H, 4 * K), draw(H, K, 4 * K) / K**0.5, draw(H, 4 * K)), None
    if state:
        h, c, n, m = (draw(B, H * K) for _ in range(4))
        before = (h, c, 1 + n.square(), m)
    y, after = slstm.slstm(*inputs, before)
    return y, *after


def _lags(taps: str, past: bool, draw: Draw, B: int, T: int, D: int, L: int) -> Outputs:
    shape = {"of all channels": (L,), "of each channel": (L, D), "that mix": (L, D, D)}
    w = draw(*shape.get(taps, (L, 2, D // 2, D // 2))) / (L * D) ** 0.5
    return lag_sum.lags(draw(B, T, D), w, maybe(draw, past, B, 3, D))
