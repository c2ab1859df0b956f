"""The lag sum with dilation δ: a lag sum over the tokens t ≡ r (mod δ), for each remainder r.

    y_t = Σ_k z_{t-kδ} W_k,   centered: Σ_{k=-(L-1)}^{L-1} z_{t-kδ} W_{k+L-1}

The state has the last (L-1)δ inputs, in a ring (`ops.ring`).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, Length, State, length_of
from seqloom.ops.lag_sum import Taps, lags
from seqloom.ops.lag_sum.centered import sum_centered
from seqloom.ops.lag_sum.reference import product
from seqloom.ops.lag_sum.window import sum_newest
from seqloom.ops.past import ring


def sum_dilated(z: Stream, w: Taps, dilation: int, around: bool = False) -> Stream:
    """The sum over a whole sequence z (B, T, D); centered if `around`."""
    T, run = z.shape[1], sum_centered if around else lags
    return _by_remainder(z, min(dilation, T), lambda tokens: run(tokens, w))


def carry(
    z: Stream,
    w: Taps,
    dilation: int,
    state: State | None,
    name: str,
    lengths: Lengths | None = None,
    reuse: bool = False,
) -> tuple[Stream, Entries]:
    """The sum over z (B, T, D), and the ring `name` of the state after it, which is not computed without a state.

    With `reuse` one token is written in place.
    """
    if state is None:
        return sum_dilated(z, w, dilation), {}
    length = length_of(state)
    if z.shape[1] == 1 and lengths is None:
        y, after = advance(z[:, 0], w, dilation, state[name], length, reuse)
        return y[:, None], {name: after}
    past = ring.latest(state[name], length.tokens, ring.count_filled(state[name].shape[1], length))
    y = sum_dilated(torch.cat([past.to(z.dtype), z], 1), w, dilation)[:, past.shape[1] :]
    return y, {name: ring.write(state[name], length.tokens, z, lengths)}


def advance(z: Token, w: Taps, dilation: int, past: Tensor, length: Length, reuse: bool) -> tuple[Token, Tensor]:
    """The sum at one more token z (B, D), and the ring `past` after it; with `reuse` it is written in place."""
    filled = ring.count_filled(past.shape[1], length)
    newest_first = ring.latest(past, length.tokens, filled).flip(1)
    inputs = newest_first[:, dilation - 1 :: dilation]
    y = product(z, w[0].to(z.dtype))
    if inputs.shape[1]:
        y = y + sum_newest(inputs.to(z.dtype), w[1 : 1 + inputs.shape[1]].to(z.dtype))
    if reuse:
        return y, ring.write_(past, length.tokens, z.detach())
    return y, ring.write(past, length.tokens, z[:, None])


def _by_remainder(z: Tensor, dilation: int, run: Callable[[Tensor], Tensor]) -> Tensor:
    """Applies `run` to the tokens of each remainder, and puts the results in the order of time."""
    if dilation <= 1:
        return run(z)
    times = torch.arange(z.shape[1], device=z.device)
    order = torch.cat([times[remainder::dilation] for remainder in range(dilation)])
    return torch.cat([run(z[:, remainder::dilation]) for remainder in range(dilation)], 1)[:, order.argsort()]
