"""A projection by oneDNN, forward and backward, since torch's operator for it has no derivatives."""

import functools
import math
import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

IMAGES = 16
"""the batch size of the convolution in `outer`, where it divides the number of rows: with one thread torch leaves a
convolution of fewer images to MKL (docs/log.md)"""


def supports(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether oneDNN can do this call: on a CPU, float32 throughout, and not under autocast."""
    tensors = [x, weight] if bias is None else [x, weight, bias]
    supported = all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)
    return supported and x.numel() > 0 and not torch.is_autocast_enabled("cpu") and not unavailable()


@functools.cache
def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    available = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return {} if available else {"onednn": "this torch has none"}


@functools.cache
def faster() -> bool:
    """Whether oneDNN is the faster library on this processor, which was measured to be so on AMD's."""
    return "AuthenticAMD" in _processor()


@functools.cache
def outer_faster() -> bool:
    """Whether oneDNN is faster for `outer`: on AMD's processors with AVX-512, which MKL does not use there."""
    return faster() and "avx512f" in _processor()


def _processor() -> str:
    """The system's description of its processor."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()


def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """See `seqloom.ops.fused.projection.project`."""
    y: Tensor = _Projection.apply(x, weight, bias)  # type: ignore[no-untyped-call]  # torch does not type apply
    return y


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """a bᵀ + bias for a (…, I) and b (O, I)."""
    if not (b.is_contiguous() or b.T.is_contiguous()):  # of other layouts oneDNN has a loop, 300 times slower
        b = b.contiguous()
    y: Tensor = torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")
    return y


def outer(a: Tensor, b: Tensor) -> Tensor:
    """Σ_r a_r b_rᵀ of rows a (R, O) and b (R, I) → (O, I).

    oneDNN is slow at this product, but fast at the gradient of a 1×1 convolution in channels-last layout, which is the
    same sum over the pixels of images. So the rows become the pixels of a few images that are one pixel high.
    """
    images = math.gcd(len(a), IMAGES)
    dy, x = (tensor.reshape(images, 1, -1, tensor.shape[1]).permute(0, 3, 1, 2) for tensor in (a, b))
    weight = a.new_empty(a.shape[1], b.shape[1], 1, 1)
    output_mask = [False, True, False]
    gradients = torch.ops.aten.convolution_backward(
        dy, x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, output_mask
    )
    dw: Tensor = gradients[1]  # (O, I, 1, 1)
    return dw.flatten(1)


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x = x.contiguous()  # with strided channels all three products take up to four times as long
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()
        if torch.is_grad_enabled():  # for second derivatives
            return _differentiable(ctx.needs_input_grad, x, weight, dy)
        return _gradients(ctx.needs_input_grad, x, weight, dy)


def _gradients(wanted: tuple[bool, ...], x: Tensor, weight: Tensor, dy: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients of x, W and b that are `wanted`, without derivatives of their own."""
    x_rows, dy_rows = x.flatten(0, -2), dy.flatten(0, -2)
    dx = product(dy, weight.T) if wanted[0] else None
    dw = None
    if wanted[1]:
        dw = outer(dy_rows, x_rows) if outer_faster() else dy_rows.T @ x_rows
    return dx, dw, dy_rows.sum(0) if wanted[2] else None


def _differentiable(wanted: tuple[bool, ...], x: Tensor, weight: Tensor, dy: Tensor) -> tuple[Tensor | None, ...]:
    """As `_gradients`, by torch's products, so that they can be differentiated again."""
    x_rows, dy_rows = x.flatten(0, -2), dy.flatten(0, -2)
    dx = linear(dy, weight.T) if wanted[0] else None
    return dx, dy_rows.T @ x_rows if wanted[1] else None, dy_rows.sum(0) if wanted[2] else None
