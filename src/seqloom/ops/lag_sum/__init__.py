"""The lag sum: each output is a weighted sum of its input and those before, with weights by their lag.

    y_i = Σ_{k=0}^{L-1} x_{i-k} W_k                      inputs before the first are 0

W has one of four shapes: (L, D, D) mixes channels; (L, G, D/G, D/G) mixes them inside each of G groups; (L, D) has a
weight per channel; (L,) has one weight for all channels.

Source: the Extractor paper's Eq. 23, 26, 28 and 29, with k = i - j and W_k for the paper's W_{i-j+1}. Nothing differs.
"""

from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor, cat, float32, promote_types

from seqloom.core.autocast import autocasts, without_autocast
from seqloom.core.graphs import capturing
from seqloom.core.shapes import Stream
from seqloom.ops import gpu as device
from seqloom.ops.checked import check_shapes
from seqloom.ops.lag_sum import (
    choice,
    direct,
    divide_and_conquer,
    fft,
    gpu,
    native,
    reference,
    spectral,
    taps,
    tiles,
)
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

Taps: TypeAlias = Float[Tensor, "L D D"] | Float[Tensor, "L G D/G D/G"] | Float[Tensor, "L D"] | Float[Tensor, " L"]
EXACT = ("reference", "direct", "toeplitz", "native", "divide_and_conquer", "triton", "tiles")
"""the backends in which an output is exactly unaffected by later inputs"""


@check_shapes("lag_sum", least="L")
def lags(x: Stream, w: Taps, past: Float[Tensor, "B P D"] | None = None) -> Stream:
    """The lag sum of x (B, T, D) under the taps w, one of (L, D, D), (L, G, D/G, D/G), (L, D), (L,).

    `past` (B, P, D) are the inputs right before x. Raises ValueError where the channels of w and x do not agree.
    Backends: `direct`, `toeplitz` (for (L,) only), `native` (on a CPU, for (L, D) and (L,)), `triton` (on a GPU),
    `tiles` (on a GPU, for (L, D) only) and `divide_and_conquer` are exactly causal; `fft` and `spectral` (on a CPU)
    move outputs before a changed input by at most F = 8 eps · max|x| · Σ|w| · log2(2T), where max|x| is over all
    inputs, later ones too. The rounding error of a direct sum of n terms is at most n eps Σ|terms|, that of a
    transformed sum F, that of divide and conquer the sum of both. All backends are differentiable twice.
    """
    if past is not None and past.shape[1]:
        return _run(cat([past, x], 1), w)[:, past.shape[1] :]
    return _run(x, w)


def _run(x: Tensor, w: Tensor) -> Tensor:
    if x.numel() == 0:
        return x.clone()
    run = OP[OP.choose(x, w)]
    if capturing() or len(w) > x.shape[1]:  # the gradient of a slice is a copy, even of all taps
        w = w[: x.shape[1]]
    if not autocasts(x.device):
        y: Tensor = run(x, w)
        return y
    dtype = promote_types(x.dtype, w.dtype)
    wide = promote_types(dtype, float32)
    with without_autocast(x.device):  # which would round sums of matrices, and those alone
        y = run(x.to(wide), w.to(wide))
    return y.to(dtype)


def choose_backend(x: Stream, w: Tensor) -> str:
    """The fastest backend for these sizes, by the rule of `choice`."""
    return choice.fastest(x, w)


def _number(draw: Draw, B: int, T: int) -> Tensor:
    return lags(draw(B, T, CHANNELS), draw(T), draw(B, 3, CHANNELS))


def _vectors(draw: Draw, B: int, T: int) -> Tensor:
    return lags(draw(B, T, CHANNELS), draw(T, CHANNELS), draw(B, 3, CHANNELS))


def _matrices(draw: Draw, B: int, T: int) -> Tensor:
    return lags(draw(B, T, CHANNELS), draw(T, CHANNELS, CHANNELS))


def _groups(draw: Draw, B: int, T: int) -> Tensor:
    return lags(draw(B, T, CHANNELS), draw(T, 4, CHANNELS // 4, CHANNELS // 4))


OP = Op(
    "lag_sum",
    {
        "reference": Backend(reference.lags),
        "direct": Backend(direct.lags, plain=True),
        "fft": Backend(fft.lags),
        "toeplitz": Backend(direct.toeplitz, fits=lambda x, w: w.ndim == 1, plain=True),
        "native": Backend(native.lags, native.KERNEL.unavailable, lambda x, w: w.ndim < 3 and x.device.type == "cpu"),
        "spectral": Backend(spectral.lags, spectral.unavailable, lambda x, w: x.device.type == "cpu"),
        "divide_and_conquer": Backend(divide_and_conquer.lags),
        "triton": Backend(gpu.lags, gpu.unavailable, lambda x, w: device.supports(x.device)),
        "tiles": Backend(tiles.lags, tiles.unavailable, tiles.supports),
    },
    rule=choose_backend,
    examples=(_number, _vectors, _matrices, _groups),
    price=taps.price,
)
