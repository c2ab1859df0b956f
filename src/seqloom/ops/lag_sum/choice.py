"""The rule that chooses the backend of the lag sum, by the shape of the taps and the sizes.

    C on a CPU     vectors, or one number: `native` up to 64 lags, `spectral` beyond;  groups of channels: `spectral`
                   matrices: `direct` where B T L ≤ 2 D and D ≥ 64 (so few products that the transforms of the taps cost
                   more), else `spectral`
    plain torch    `direct` for few lags;  beyond, one number by `toeplitz` up to 256 tokens;  else `fft`
    a GPU          few lags: `triton`, but `direct` for matrices of more than 128 channels;  beyond, up to 1,024 lags:
                   vectors by `tiles` for at least 8 rows, one number by `toeplitz`;  else plain torch

    B rows, T tokens, L lags (at most T), D channels

Plain torch runs where no C can be compiled, on other devices, and in exported graphs, which may run elsewhere.

Source: the times of every backend at 572 sizes in `results/lag_sum_choice.jsonl`, and of a GPU at ten in
`results/gpu.jsonl`; docs/log.md compares the rule with the fastest choice. `tiles` and `toeplitz` on a GPU are
estimates.
"""

from torch import Tensor, compiler

from seqloom.core.graphs import constant
from seqloom.ops import backends
from seqloom.ops import gpu as device

NATIVE = 64
"""the most lags that C sums one by one where channels do not mix; the crossover is between 32 and 128"""
FEW = 5
"""the most lags that plain torch sums one by one; the crossover is between 4 and 8"""
ON_GPU = {1: 64, 2: 64, 3: 8, 4: 8}
"""the most lags that a GPU sums one by one, by the number of dimensions of the taps: the crossover is from 64 to 256
where channels do not mix, from 8 to 32 under matrices, and an estimate under groups of channels"""
TILED = 1024
"""the most lags that a GPU sums by Toeplitz matrices, which torch multiplies for one number, and Triton for vectors"""
ROWS = 8
"""the fewest rows of inputs that fill such products of Triton's, which have at least 16"""
NARROW = 128
"""the most channels whose matrices Triton's kernels multiply; at 512, torch's products take a third of their time, and
widths between were not timed"""


def fastest(x: Tensor, w: Tensor) -> str:
    """The backend for these inputs (B, T, D) and taps (L, …)."""
    B, T, D = x.shape
    L = min(T, len(w))
    if device.best(x.device) and ON_GPU[w.ndim] >= L:
        return "direct" if w.ndim == 3 and D > NARROW else "triton"
    if x.device.type == "cuda" and L <= TILED and not compiler.is_exporting():
        if w.ndim == 1 and T <= TILED:
            return "toeplitz"
        if w.ndim == 2 and B >= ROWS and device.best(x.device):
            return "tiles"
    if not x.is_cpu or compiler.is_exporting() or not has_compiled_backends():
        return portable(B, T, L, D, w.ndim)
    if w.ndim < 3:
        return "native" if L <= NATIVE else "spectral"
    few_products = w.ndim == 3 and D >= 64 and B * T * L <= 2 * D
    return "direct" if few_products else "spectral"


def portable(B: int, T: int, L: int, D: int, ndim: int) -> str:
    """The backend in plain torch."""
    if ndim == 4:
        return "direct" if L <= FEW and B == 1 else "fft"
    if L <= FEW or (ndim == 3 and D >= 64 and B * L <= 32):
        return "direct"
    return "toeplitz" if ndim == 1 and T <= 256 else "fft"


@constant
def has_compiled_backends() -> bool:
    """Whether this machine has both backends in C."""
    return not {"native", "spectral"} & backends.unavailable("lag_sum").keys()
