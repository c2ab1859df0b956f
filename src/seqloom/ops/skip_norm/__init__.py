"""Normalizes the output of each head, adds a skip connection, and multiplies the sum by a gate.

    y = (norm(x) ∘ gain + skip ∘ c) ∘ silu(z)           norm: mean and variance over the channels of a head

Source: the end of xLSTM's mLSTM block, Beck et al., arXiv:2405.04517, figure 11. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.ops.checked import checked
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.skip_norm import native, reference


@checked("skip_norm", gain="H*V", skip="H*V", c="B T H*V", z="B T H*V")
def normed(
    x: Float[Tensor, "B T H V"],
    gain: Float[Tensor, " D"],
    skip: Float[Tensor, " D"],
    c: Stream,
    z: Stream,
    eps: float,
) -> Stream:
    """y (B, T, D) of D = H V channels. Differentiable twice.

    Backends: `reference` by torch's own norm, and `native` in C on a CPU, in one pass over memory each way.
    """
    if x.numel() == 0:
        return c.clone()
    y: Tensor = OP[OP.choose(x, gain, skip, c, z)](x, gain, skip, c, z, eps)
    return y


def by_size(*inputs: Tensor) -> str:
    """The fastest backend."""
    return "native" if able(*inputs) and not torch.compiler.is_exporting() and native.available() else "reference"


def able(x: Tensor, *rest: Tensor) -> bool:
    """Whether C supports these tensors: on a CPU, all float32 or all float64, and not under autocast."""
    supported = x.dtype in (torch.float32, torch.float64) and all(tensor.dtype == x.dtype for tensor in rest)
    return supported and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _example(draw: Draw, B: int, T: int) -> Tensor:
    x, c, z = draw(B, T, 4, CHANNELS // 4), draw(B, T, CHANNELS), draw(B, T, CHANNELS)
    return normed(x, draw(CHANNELS), draw(CHANNELS), c, z, 1e-5)


OP = Op(
    "skip_norm",
    {"reference": Backend(reference.normed), "native": Backend(native.normed, native.lacking, able)},
    rule=by_size,
    examples=(_example,),
    price=reference.price,
)
