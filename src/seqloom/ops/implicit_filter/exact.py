"""The lag sum under taps (L, D) where its inputs are products, as a Hyena's are: always exactly causal.

A Fourier transform rounds each output by the largest input, later ones included. Of products, the largest is that of
the model's inputs to a power, so what a late outlier does to the outputs before it would no longer be small. Where the
lag sum chooses an exactly causal backend, that one runs; else C sums up to NEAR lags directly, and the rest is cut in
halves (`lag_sum.halves`).
"""

import torch
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.ops import lag_sum, ring
from seqloom.ops.lag_sum import halves, native

NEAR = 2048
"""lags"""


def lags(x: Stream, w: Tensor) -> Stream:
    """See `seqloom.ops.lag_sum.lags`."""
    if x.numel() == 0 or lag_sum.OP.choose(x, w) in lag_sum.EXACT:
        return lag_sum.lags(x, w)
    here = x.device.type == "cpu" and not torch.compiler.is_exporting()
    near = here and min(x.shape[1], len(w)) <= NEAR and native.available()
    return (native if near else halves).lags(x, w[: x.shape[1]])


def carry(
    z: Stream, w: Tensor, state: State | None, name: str, lengths: Lengths | None = None
) -> tuple[Stream, Entries]:
    """As `seqloom.ops.lag_sum.window.carry`. A past beyond the taps is not read."""
    if state is None:
        return lags(z, w), {}
    length = state["length"]
    forwards = state[name].flip(1)
    past = ring.latest(forwards, length, min(forwards.shape[1], len(w) - 1)).to(z.dtype)
    y = lags(torch.cat([past, z], 1), w)[:, past.shape[1] :]
    after = ring.write(forwards, length, z, lengths)
    return y, {name: after.flip(1)}
