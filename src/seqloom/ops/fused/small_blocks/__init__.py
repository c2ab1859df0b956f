"""A product with a block-diagonal matrix of many small blocks: every few channels have a matrix of their own.

    y_b = x_b W_b               N blocks of n channels

Source: the projections to q, k and v in xLSTM's mLSTM, Beck et al., arXiv:2405.04517, figure 11. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.ops.checked import check_shapes
from seqloom.ops.fused.small_blocks import native, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


@check_shapes("small_blocks", x="B T N*n")
def products(x: Stream, w: Float[Tensor, "N n n"]) -> Stream:
    """x (B, T, N n) times the blocks w: (B, T, N n). Differentiable twice.

    Backends: `reference` by `einsum`, whose products are too small for a matrix library; `native` in C on a CPU.
    """
    if x.numel() == 0:
        return x.clone()
    y: Tensor = OP[OP.choose(x, w)](x, w)
    return y


def choose_backend(x: Tensor, w: Tensor) -> str:
    """The fastest backend. Products with large blocks are left to a matrix library."""
    small = x.shape[-2] > 1 and w.shape[1] <= LARGEST and not torch.compiler.is_exporting()
    return "native" if small and supports(x, w) and native.KERNEL.available() else "reference"


def supports(x: Tensor, w: Tensor) -> bool:
    """Whether C supports these tensors: on a CPU, both float32 or both float64, and not under autocast."""
    supported = x.dtype == w.dtype and x.dtype in (torch.float32, torch.float64)
    return supported and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


LARGEST = 16
"""channels of a block up to which C is used"""


def _example(draw: Draw, B: int, T: int) -> Tensor:
    return products(draw(B, T, CHANNELS), draw(CHANNELS // 4, 4, 4))


def _odd(draw: Draw, B: int, T: int) -> Tensor:
    return products(draw(B, T, 3 * CHANNELS), draw(CHANNELS, 3, 3))


OP = Op(
    "small_blocks",
    {"reference": Backend(reference.products), "native": Backend(native.products, native.KERNEL.unavailable, supports)},
    rule=choose_backend,
    examples=(_example, _odd),
    price=reference.price,
)
