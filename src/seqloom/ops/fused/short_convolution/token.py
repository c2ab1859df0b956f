"""One token of the convolution, without the lags before the first token."""

import torch
from jaxtyping import Int
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.core.state import Length
from seqloom.ops.checked import check_shapes
from seqloom.ops.fused.short_convolution import Bias, Taps, Window
from seqloom.ops.fused.short_convolution.reference import finish_sum
from seqloom.ops.past import ring


def convolve_token(
    x: Token, taps: Taps, bias: Bias, window: Window, length: Length, silu: bool = True
) -> tuple[Token, Window]:
    """The output of one token x (B, D) after `length` tokens, and the window after it, which is a new tensor."""
    _require_fit(x, taps, bias, window, length.tokens)
    size = window.shape[1]
    filled = ring.count_filled(size, length)  # the other inputs of the window are 0
    wide = torch.promote_types(x.dtype, torch.float32)
    inputs = torch.cat([window[:, size - filled :].to(wide), x[:, None].to(wide)], 1)
    y = (inputs * taps[: filled + 1].to(wide).flip(0)).sum(1)
    if filled < size or window.dtype != wide:
        inputs = torch.cat([window, x[:, None].to(window.dtype)], 1)
    # strides as those of a new state, or a compiled step would be compiled again
    return finish_sum(y, bias, silu).to(x.dtype), inputs[:, 1:].contiguous()


@check_shapes("convolve_token", least="W", window="B W-1 D")
def _require_fit(x: Token, taps: Taps, bias: Bias, window: Window, length: Int[Tensor, " B"]) -> None:
    """ValueError or TypeError unless the tensors of a token fit."""
