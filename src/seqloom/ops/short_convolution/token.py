"""One token of the convolution, for generation: by one direct call of C, or in torch.

With `reuse` the given window is overwritten. C is not called directly where gradients are needed, a graph is captured
or another backend is forced.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.core.state import Length
from seqloom.ops import native, ring
from seqloom.ops.checked import checked
from seqloom.ops.short_convolution import OP, Bias, Taps, Window
from seqloom.ops.short_convolution.native import TOKEN
from seqloom.ops.short_convolution.reference import finished


def convolve_token(
    x: Token, taps: Taps, bias: Bias, window: Window, length: Length, reuse: bool
) -> tuple[Token, Window]:
    """The output, with silu, of one token x (B, D) after `length` tokens, and the window after it."""
    inputs = (x, taps, window) if bias is None else (x, taps, window, bias)
    if not (native.callable_directly(*inputs) and _quick(x, window)):
        _require_fit(x, taps, bias, window, length.tokens)
        y, new_window = portable_token(x, taps, bias, window, length)
        return y, window.copy_(new_window.detach()) if reuse else new_window
    y, new_buffer = x.new_empty(x.shape), None if reuse else window.new_empty(window.shape)
    TOKEN(x, taps, bias, window, length.tokens, y, new_buffer, threads=native.threads(x.numel()))
    return y, window if new_buffer is None else new_buffer


@checked("convolve_token", least="W", window="B W-1 D")
def _require_fit(x: Token, taps: Taps, bias: Bias, window: Window, length: Int[Tensor, " B"]) -> None:
    """ValueError or TypeError unless the tensors of a token fit."""


def _quick(x: Token, window: Window) -> bool:
    """Whether C supports these tensors, and no other backend is forced."""
    return x.dtype in native.WORD and x.numel() > 0 and window.is_contiguous() and OP.choose(x) == "native"


def portable_token(
    x: Token, taps: Taps, bias: Bias, window: Window, length: Length, silu: bool = True
) -> tuple[Token, Window]:
    """As `convolve_token`, with or without silu, in torch; the given window is not changed."""
    size = window.shape[1]
    filled = ring.filled(size, length)  # the other inputs of the window are 0
    wide = torch.promote_types(x.dtype, torch.float32)
    wide_taps = taps.to(wide)
    y = x.to(wide) * wide_taps[0]
    if filled:
        y = y + (window[:, size - filled :].to(wide) * wide_taps[1 : filled + 1].flip(0)).sum(1)
    new_window = torch.cat([window[:, 1:], x[:, None].to(window.dtype)], 1) if size else window
    return finished(y, bias, silu).to(x.dtype), new_window
