"""The short convolution in torch: a loop over lags, from which its price is counted, and the lag sum."""

import torch
from torch import Tensor
from torch.nn.functional import silu as silu_of

from seqloom.core.cost import Cost, Span
from seqloom.ops.lag_sum import lags


def convolve(x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, silu: bool) -> Tensor:
    """The convolution (B, T, D) of x (B, T, D) after the inputs in the window (B, W-1, D), None for zeros."""
    T, past = x.shape[1], 0 if window is None else window.shape[1]
    inputs = x if window is None else torch.cat([window, x], 1)
    y = taps[0] * x
    for k in range(1, min(len(taps), past + T)):
        without_input = max(0, k - past)  # the first tokens, which have no input k tokens before them
        sums = y[:, without_input:] + taps[k] * inputs[:, past + without_input - k : past + T - k]
        y = torch.cat([y[:, :without_input], sums], 1) if without_input else sums
    return finish_sum(y, bias, silu)


def convolve_by_lag_sum(x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, silu: bool) -> Tensor:
    """As `convolve`, with the backend that the lag sum chooses for these sizes."""
    return finish_sum(lags(x, taps, window), bias, silu)


def finish_sum(y: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
    """The convolution from the sum over lags y: adds the bias, if there is one, and applies silu, if wanted."""
    y = y if bias is None else y + bias.to(y.dtype)
    return silu_of(y) if silu else y


def price(span: Span, dim: int, width: int, bias: bool = True, silu: bool = True) -> Cost:
    """The price of the convolution; the first tokens have fewer inputs."""
    rows, terms = span.rows, span.terms(width)
    return Cost(
        mul=terms * dim,
        add=(terms + rows * (bias + silu - 1)) * dim,  # with the bias, and the sum in silu
        div=rows * dim * silu,
        exp=rows * dim * silu,
        path=("multiplication", "cumulation", *(("exponentiation", "division") if silu else ())),
    )
