"""The lag sum where inputs arrive one by one: the state holds the last L-1 inputs in a ring.

    y_n = z_n W_0 + Σ_{k=1}^{min(n, L-1)} z_{n-k} W_k

The window (B, L-1, D) is a ring that is filled backwards: the input at time t is in slot -1-t (mod L-1), and slots that
were never written are 0. So, from the newest slot on, slots are in the order of the taps. Where all rows have read
equally many tokens, the sum is two products of slices, without copies. Otherwise, or where that is not known, the
inputs are gathered in the order of the taps.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.graphs import is_transformed
from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, Length, State, length_of
from seqloom.ops.lag_sum import Taps, lags
from seqloom.ops.lag_sum.reference import product
from seqloom.ops.past import ring

Window: TypeAlias = Float[Tensor, "B P D"]
ADDED = 1 << 18
"""numbers that are summed at a time for channels that do not mix: about the size of a core's cache"""


def empty(batch: int, context: int, dim: int, like: Tensor) -> Window:
    """The window (B, L-1, D) before the first token, L = `context`, in the dtype and on the device of `like`."""
    return like.new_zeros(batch, context - 1, dim)


def carry(
    z: Stream, w: Taps, state: State | None, name: str, lengths: Lengths | None = None, reuse: bool = False
) -> tuple[Stream, Entries]:
    """The lag sum of z (B, T, D), and the entry `name` of the state after it; without a `state` no entry is computed.

    With `lengths` (B,) each row of z has that many tokens, then padding. With `reuse` one token is written in place.
    """
    if state is None:
        return lags(z, w), {}
    length = length_of(state)
    if z.shape[1] == 1 and lengths is None:
        y, window = advance(z[:, 0], w, state[name], length, reuse)
        return y[:, None], {name: window}
    forwards = state[name].flip(1)
    past = ring.latest(forwards, length.tokens, ring.count_filled(forwards.shape[1], length))
    after = ring.write(forwards, length.tokens, z, lengths)
    return lags(z, w, past.to(z.dtype)), {name: after.flip(1)}


def advance(z: Token, w: Taps, window: Window, length: Length, reuse: bool) -> tuple[Token, Window]:
    """The lag sum at one more token z (B, D), and the window after it; with `reuse` it is written in place."""
    y = product(z, w[0].to(z.dtype))
    size = window.shape[1]
    count = length.bound if length.even else None  # the tokens that all rows have read
    for past, first_lag in _newest_first(window, length) if count is None else _slices(window, count):
        y = y + sum_newest(past.to(z.dtype), w[first_lag : first_lag + past.shape[1]].to(z.dtype))
    if is_transformed():  # which cannot follow a write into a new tensor
        return y, ring.write(window.flip(1), length.tokens, z[:, None]).flip(1)
    window, token = (window, z.detach()) if reuse else (window.clone(), z)
    if count is None:
        return y, ring.write_(window, -1 - length.tokens, token)  # the ring is filled backwards
    if size:
        window[:, (-1 - count) % size] = token.to(window.dtype)
    return y, window


def _slices(window: Tensor, count: int) -> list[tuple[Tensor, int]]:
    """The inputs of the last `count` tokens, newest first, as one or two views with the lags of their first inputs."""
    size = window.shape[1]
    filled = min(count, size)
    if filled == 0:
        return []
    newest = -count % size
    before_wrap = min(filled, size - newest)
    views = [(window[:, newest : newest + before_wrap], 1), (window[:, : filled - before_wrap], 1 + before_wrap)]
    return views if filled > before_wrap else views[:1]


def _newest_first(window: Tensor, length: Length) -> list[tuple[Tensor, int]]:
    """As `_slices` where rows have read different numbers of tokens: one copy, 0 before a row's first token."""
    filled = ring.count_filled(window.shape[1], length)
    if filled == 0:
        return []
    slot = (torch.arange(filled, device=window.device) - length.tokens[:, None]) % window.shape[1]
    return [(ring.pick(window, slot), 1)]


def sum_newest(past: Tensor, w: Tensor) -> Tensor:
    """Σ_k past_k w_k for past (B, N, D), newest first, and as many taps: (B, D)."""
    if w.ndim == 1:
        return torch.bmm(w.expand(len(past), 1, -1), past)[:, 0]
    if w.ndim == 2:
        return _by_channel(past, w)
    if w.ndim == 3:
        return past.flatten(1) @ w.flatten(0, 1)
    grouped = past.unflatten(2, w.shape[1:3]).flatten(1, 2).transpose(0, 1)  # (N G, B, D/G)
    return torch.bmm(grouped, w.flatten(0, 1)).unflatten(0, w.shape[:2]).sum(0).transpose(0, 1).flatten(1)


def _by_channel(past: Tensor, w: Tensor) -> Tensor:
    """Σ_k past_k w_k for channels that do not mix, a few lags at a time, so that products stay in the cache."""
    N = past.shape[1]
    count = max(1, ADDED // max(past[:, 0].numel(), 1))  # lags at a time
    if torch.compiler.is_compiling() or 2 * count >= N or torch.is_grad_enabled() or is_transformed():
        return (past * w).sum(1)
    sums = past[:, :count] * w[:count]
    for first in range(count, N, count):
        stop = min(first + count, N)
        sums[:, : stop - first].addcmul_(past[:, first:stop], w[first:stop])
    return sums.sum(1)
