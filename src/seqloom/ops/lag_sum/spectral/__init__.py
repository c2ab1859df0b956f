"""The lag sum by Fourier transforms in C, for channels that do not mix (channels.c) or mix by matrices (matrices.c).

Products are modulo z^N - i instead of z^N - 1, so no padding with zeros is needed (transform.h): N is the smallest
power of two that is not below the number of lags, and longer inputs are cut into chunks of N. For the gradients only
the inputs are saved, and their transforms are recomputed.

Source: right-angle convolution, Nussbaumer, Fast Fourier Transform and Convolution Algorithms, 1982; a complex product
takes three real ones, by Gauss's trick. Nothing differs.
"""

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.lag_sum import adjoint
from seqloom.ops.lag_sum.native import parts
from seqloom.ops.lag_sum.spectral import kernels


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return not lacking()


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("spectral", kernels.CHANNELS, kernels.MATRICES)


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps of any of the four kinds → (B, T, D). Raises ValueError where there is no native code."""
    kind = torch.promote_types(x.dtype, w.dtype)
    wide = torch.promote_types(kind, torch.float32)
    taps = w.to(wide) if w.ndim > 1 else w.to(wide)[:, None].expand(-1, x.shape[2])
    y: Tensor = forward(x.to(wide), taps)
    return y.to(kind)


def _forward(x: Tensor, w: Tensor) -> Tensor:
    """y_t = Σ_k x_{t-k} w_k for x (B, T, D) and w (L, D), (L, D, D) or (L, G, D/G, D/G); both float32 or float64."""
    y = x.new_empty(x.shape)
    (kernels.channels if w.ndim == 2 else kernels.matrices)("forward", x, w, y)
    return y


def _backward(x: Tensor, w: Tensor, g: Tensor, to_x: bool, to_w: bool) -> tuple[Tensor, Tensor]:
    """The gradients of x and w for the gradient g (B, T, D) of the output; empty where one is not needed."""
    dx = x.new_empty(x.shape if to_x else 0)
    summed = [parts(x)] if w.ndim == 2 else []
    dw = w.new_empty((*summed, *w.shape) if to_w else 0)
    run = kernels.channels if summed else kernels.matrices
    run("backward", x, w, g, dx if to_x else None, dw if to_w else None)
    return dx, dw.sum(0) if summed and to_w else dw


forward, backward = adjoint.operators("spectral_lag_sum", _forward, _backward)
