"""The short convolution in C (scan.c): sum, bias and silu in one pass, forward and backward."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.ops import native
from seqloom.ops.lag_sum import lags
from seqloom.ops.selective_scan.kernels import BYTES, CHUNK, by_token, call, given, sized, unseen, whole


def convolve(x: Tensor, taps: Tensor, bias: Tensor, window: Tensor | None) -> Tensor:
    """(B, T, D) → (B, T, D), all float32 or all float64. Raises ValueError where there is no native code."""
    return (_read if unseen(x, taps, bias, window) else forward)(x, taps, bias, window)


@torch.library.custom_op("seqloom::short_convolution_forward", mutates_args=(), device_types="cpu")
def forward(x: Tensor, taps: Tensor, bias: Tensor, window: Tensor | None) -> Tensor:
    """See `convolve`."""
    return _read(x, taps, bias, window)


@torch.library.custom_op("seqloom::short_convolution_backward", mutates_args=(), device_types="cpu")
def _backward(
    x: Tensor, taps: Tensor, bias: Tensor, window: Tensor | None, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, taps, bias and the window."""
    (B, _, D), W, threads = x.shape, len(taps), native.threads(x.numel())
    dx, dwindow = x.new_empty(x.shape), x.new_empty(0 if window is None else (B, W - 1, D))
    dtaps, dbias = (torch.zeros(B, *of, dtype=torch.float64) for of in ((W, D), (D,)))
    scratch = x.new_empty(threads, (CHUNK + 2 * W) * BYTES // x.element_size())
    sizes, held = _laid(threads, x, taps, bias, window)
    call("convolve_back", x, sizes, given(*held), dy.contiguous(), dx, dwindow, dtaps, dbias, scratch)
    return dx, dtaps.sum(0).to(x.dtype), dbias.sum(0).to(x.dtype), dwindow


@forward.register_fake
def _forward_shape(x: Tensor, taps: Tensor, bias: Tensor, window: Tensor | None) -> Tensor:
    return x.new_empty(x.shape)


@_backward.register_fake
def _backward_shapes(
    x: Tensor, taps: Tensor, bias: Tensor, window: Tensor | None, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    made = (x.shape, taps.shape, bias.shape, (0,) if window is None else window.shape)
    dx, dtaps, dbias, dwindow = (x.new_empty(of) for of in made)
    return dx, dtaps, dbias, dwindow


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradients(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
    x, taps, bias, window = ctx.saved_tensors
    if torch.is_grad_enabled():  # second derivatives go through the equation's own operations
        given = (x, taps, bias, window)
        wanted = [each for each in given if each is not None and each.requires_grad]
        y = F.silu(lags(x, taps, window) + bias)
        grads = iter(torch.autograd.grad(y, wanted, dy, create_graph=True, allow_unused=True))
        return tuple(next(grads) if each is not None and each.requires_grad else None for each in given)
    dx, dtaps, dbias, dwindow = _backward(x, taps, bias, window, dy)
    return dx, dtaps, dbias, None if window is None else dwindow


forward.register_autograd(_gradients, setup_context=_save)


def _read(x: Tensor, taps: Tensor, bias: Tensor, window: Tensor | None) -> Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    sizes, held = _laid(native.threads(x.numel()), x, taps, bias, window)
    call("convolve", x, sizes, given(*held), y, None)
    return y


def _laid(
    threads: int, x: Tensor, taps: Tensor, bias: Tensor, window: Tensor | None
) -> tuple[Any, list[Tensor | None]]:
    x = by_token(x)
    sizes = sized(threads, *x.shape, len(taps), *[x.stride(1)] * 5)
    return sizes, [x, None, whole(taps), None, None, whole(window), whole(bias), None, None, None]
