"""The short depthwise convolution before a mixer's sum over time, and the window of its last inputs.

    y_t = silu(b + Σ_{k<W} taps_k ∘ x_{t-k})            or without silu

The window (B, W-1, D) holds the last inputs, the latest last; before the first token they are 0. `token.py` computes
one token, and `layer.py` is the module.

Source: Gu & Dao, Mamba, arXiv:2312.00752, section 3.4, after Fu et al., H3, arXiv:2212.14052. Nothing differs.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import fla as fla_kernels
from seqloom.ops.checked import check_shapes
from seqloom.ops.fused.short_convolution import fla, native, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past import ring

Window: TypeAlias = Float[Tensor, "B P D"]
Taps: TypeAlias = Float[Tensor, "W D"]
Bias: TypeAlias = Float[Tensor, " D"] | None


@check_shapes("convolve", least="W", window="B W-1 D")
def convolve(x: Stream, taps: Taps, bias: Bias, window: Window | None = None, silu: bool = True) -> Stream:
    """The convolution (B, T, D) of x (B, T, D) after the inputs in the window, if there is one; without bias b = 0.

    Computed in float32 or better. Backends: `reference`; `lagged`, by `lag_sum`; `native` in C on a CPU, in one pass
    over memory forward and one backward; and `fla`, by its kernel on a GPU for x in bfloat16 or float16, which are not
    converted in memory. Differentiable twice, but for `fla`.
    """
    if x.numel() == 0:
        return x.clone()
    backend = OP.choose(x)
    if backend == "fla":
        return fla.convolve(x, taps, bias, window, silu)
    wide = torch.promote_types(x.dtype, torch.float32)
    converted = (None if tensor is None else tensor.to(wide) for tensor in (x, taps, bias, window))
    y: Tensor = OP[backend](*converted, silu)
    return y.to(x.dtype)


def choose_backend(x: Tensor) -> str:
    """The fastest backend."""
    if x.shape[1] == 1:
        return "reference"
    if x.device.type == "cuda" and fla.supports(x):
        return "fla"
    cpu = x.device.type == "cpu" and not torch.compiler.is_exporting()
    return "native" if cpu and native.KERNEL.available() else "lagged"


def window_after(x: Stream, window: Window, lengths: Lengths | None = None) -> Window:
    """The window (B, W-1, D) after each row has read the first `lengths` (B,) tokens of x (B, T, D), or all of them."""
    size = window.shape[1]
    if size == 0:
        return window
    inputs = torch.cat([window, x.to(window.dtype)], 1)
    if lengths is None:
        return inputs[:, -size:].clone(memory_format=torch.contiguous_format)
    return ring.pick(inputs, lengths[:, None] + torch.arange(size, device=x.device))


def _plain(draw: Draw, B: int, T: int) -> Tensor:
    return convolve(draw(B, T, CHANNELS), draw(4, CHANNELS), None, silu=False)


def _after(draw: Draw, B: int, T: int) -> Tensor:
    return convolve(draw(B, T, CHANNELS), draw(3, CHANNELS), draw(CHANNELS), draw(B, 2, CHANNELS))


OP = Op(
    "short_convolution",
    {
        "reference": Backend(reference.convolve),
        "lagged": Backend(reference.convolve_by_lag_sum, plain=True),
        "native": Backend(native.convolve, native.KERNEL.unavailable, lambda x: x.device.type == "cpu"),
        "fla": Backend(fla.convolve, fla_kernels.unavailable, fla.supports),
    },
    rule=choose_backend,
    examples=(_plain, _after),
    price=reference.price,
)
