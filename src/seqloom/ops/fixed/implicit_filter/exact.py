"""The lag sum with taps (L, D), always exactly causal, for inputs that are products, as in Hyena.

The rounding error of a Fourier transform is relative to its largest input, which may come later than the output.
Products grow as a power of the model's inputs, so the effect of a late outlier on earlier outputs would not be small.
Where the lag sum chooses an exactly causal backend, that backend runs; otherwise C sums up to DIRECT lags one by one,
and longer taps are summed by `lag_sum.divide_and_conquer`.
"""

import torch
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.ops import lag_sum
from seqloom.ops.lag_sum import divide_and_conquer, native, window
from seqloom.ops.past import ring

DIRECT = 2048
"""the most lags that C sums one by one"""


def lags(x: Stream, w: Tensor) -> Stream:
    """See `seqloom.ops.lag_sum.lags`."""
    if x.numel() == 0 or lag_sum.OP.choose(x, w) in lag_sum.EXACT:
        return lag_sum.lags(x, w)
    on_cpu = x.device.type == "cpu" and not torch.compiler.is_exporting()
    short = on_cpu and min(x.shape[1], len(w)) <= DIRECT and native.KERNEL.available()
    return (native if short else divide_and_conquer).lags(x, w[: x.shape[1]])


def carry(
    z: Stream, w: Tensor, state: State | None, name: str, lengths: Lengths | None = None, reuse: bool = False
) -> tuple[Stream, Entries]:
    """As `seqloom.ops.lag_sum.window.carry`, by `lags` of this module."""
    if state is None:
        return lags(z, w), {}
    if z.shape[1] == 1 and lengths is None:
        return window.carry(z, w, state, name, reuse=reuse)
    length = state["length"]
    forwards = state[name].flip(1)
    past = ring.latest(forwards, length, min(forwards.shape[1], len(w) - 1)).to(z.dtype)
    y = lags(torch.cat([past, z], 1), w)[:, past.shape[1] :]
    new_ring = ring.write(forwards, length, z, lengths)
    return y, {name: new_ring.flip(1)}
