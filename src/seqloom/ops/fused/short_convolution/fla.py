"""The short convolution on a GPU by flash-linear-attention's kernel: one pass over memory, in the dtype of x."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.graphs import capturing
from seqloom.ops.fla import refuse_second_derivatives, runs_on
from seqloom.ops.native import is_observed


def supports(x: Tensor) -> bool:
    """Whether the kernel supports x. It is no operator of torch, so it runs where nothing observes these."""
    return runs_on(x) and not capturing() and not is_observed(x)


def convolve(x: Tensor, taps: Tensor, bias: Tensor | None, window: Tensor | None, silu: bool) -> Tensor:
    """The convolution (B, T, D) of x (B, T, D) after the inputs in the window (B, W-1, D), None for zeros."""
    from fla.modules.causal_conv1d import causal_conv1d

    latest_last = taps.flip(0).mT.contiguous()
    with torch.autocast(x.device.type, enabled=False):
        y, _ = causal_conv1d(
            x.contiguous(),
            latest_last,
            bias,
            initial_state=None if window is None else _state(window.to(x.dtype)),
            activation="silu" if silu else None,
        )
    return refuse_second_derivatives(y, "lagged")


def _state(window: Tensor) -> Tensor:
    """The window (B, W-1, D) as fla's state (B, D, W), whose first input no tap reads."""
    return pad(window.mT, (1, 0)).contiguous()
