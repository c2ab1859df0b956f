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
from seqloom.ops.kernel import empty_for_none
from seqloom.ops.lag_sum import adjoint
from seqloom.ops.lag_sum.spectral import kernels


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return not unavailable()


def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return kernels.CHANNELS.unavailable() | kernels.MATRICES.unavailable()


def lags(x: Tensor, w: Tensor) -> Tensor:
    """(B, T, D) under taps of any of the four kinds → (B, T, D). Raises ValueError where there is no native code."""
    dtype = torch.promote_types(x.dtype, w.dtype)
    wide_dtype = torch.promote_types(dtype, torch.float32)
    taps = w.to(wide_dtype) if w.ndim > 1 else w.to(wide_dtype)[:, None].expand(-1, x.shape[2])
    y: Tensor = forward(x.to(wide_dtype), taps)
    return y.to(dtype)


def _forward(x: Tensor, w: Tensor) -> Tensor:
    """y_t = Σ_k x_{t-k} w_k for x (B, T, D) and w (L, D), (L, D, D) or (L, G, D/G, D/G); both float32 or float64."""
    y: Tensor = (kernels.channels if w.ndim == 2 else kernels.matrices)("forward", x, w)
    return y


def _backward(x: Tensor, w: Tensor, g: Tensor, needs_dx: bool, needs_dw: bool) -> tuple[Tensor, Tensor]:
    """The gradients of x and w for the gradient g (B, T, D) of the output; empty where one is not needed."""
    run = kernels.channels if w.ndim == 2 else kernels.matrices
    dx, dw = run("backward", x, w, g, needs_dx=needs_dx, needs_dw=needs_dw)
    if w.ndim == 2 and dw is not None:
        dw = dw.sum(0)
    dx, dw = empty_for_none(x, dx, dw)
    return dx, dw


forward, backward = adjoint.operators("spectral_lag_sum", _forward, _backward)
