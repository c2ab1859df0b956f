"""Which backend of the lag sum runs: a rule by the kind of taps and the sizes.

    C on a CPU     vectors, or one number: `native` up to 64 lags, `spectral` beyond;  groups of channels: `spectral`
                   matrices: `direct` where B T L ≤ 2 D and D ≥ 64 (so few products that the transforms of the taps cost
                   more), else `spectral`
    plain torch    `direct` for few lags;  beyond, one number by `toeplitz` up to 256 tokens;  else `fft`
    a GPU          `triton` for few lags, else plain torch

    B rows, T tokens, L lags (at most T), D channels

Plain torch serves where no C can be compiled, on other devices, and in a graph that is exported to run elsewhere.

Source: the times of every backend at 572 sizes, `results/lag_sum_choice.jsonl`; docs/log.md says what the rule costs.
"""

from torch import Tensor, compiler

from seqloom.core.graphs import constant
from seqloom.ops import backends
from seqloom.ops import gpu as device

NATIVE = 64
"""lags up to which C goes lag by lag where channels do not mix; 32 and 128 were measured"""
FEW = 5
"""lags up to which plain torch goes lag by lag; 4 and 8 were measured"""
KERNELS = {1: 64, 2: 64, 3: 8, 4: 8}
"""lags up to which Triton's kernels go lag by lag, by the dimensions of the taps; by the count of products, not
measured: a direct sum of matrices has L/4 to L/2 times those of transforms"""


def fastest(x: Tensor, w: Tensor) -> str:
    """The backend for these inputs (B, T, D) and taps (L, …)."""
    B, T, D = x.shape
    L = min(T, len(w))
    if device.best(x.device) and KERNELS[w.ndim] >= L:
        return "triton"
    if not x.is_cpu or compiler.is_exporting() or not compiled():
        return portable(B, T, L, D, w.ndim)
    if w.ndim < 3:
        return "native" if L <= NATIVE else "spectral"
    few = w.ndim == 3 and D >= 64 and B * T * L <= 2 * D
    return "direct" if few else "spectral"


def portable(B: int, T: int, L: int, D: int, ndim: int) -> str:
    """The backend in plain torch."""
    if ndim == 4:
        return "direct" if L <= FEW and B == 1 else "fft"
    if L <= FEW or (ndim == 3 and D >= 64 and B * L <= 32):
        return "direct"
    return "toeplitz" if ndim == 1 and T <= 256 else "fft"


@constant
def compiled() -> bool:
    """Whether this machine has both backends in C."""
    return not {"native", "spectral"} & backends.lacking("lag_sum").keys()
