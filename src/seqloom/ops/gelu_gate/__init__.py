"""The product of one branch of a block with GELU of another, GELU by its approximation with tanh.

    y = h ∘ GELU(z),   GELU(z) = z/2 (1 + tanh(√(2/π) (z + 0.044715 z³))) = z σ(2 √(2/π) (z + 0.044715 z³))

Source: Hendrycks and Gimpel, arXiv:1606.08415, section 2; as a gate in De et al., Griffin, arXiv:2402.19427, section
2.3. Nothing differs.
"""

import torch
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.ops.checked import checked
from seqloom.ops.gelu_gate import native, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


@checked("gelu_gate")
def gated(h: Stream, z: Stream) -> Stream:
    """y (B, T, D). Differentiable twice.

    Backends: `reference` by torch's GELU, and `native` in C on a CPU, in one pass over memory forward and one backward.
    """
    if h.numel() == 0:
        return h.clone()
    y: Tensor = OP[OP.choose(h, z)](h, z)
    return y


def by_size(h: Tensor, z: Tensor) -> str:
    """The fastest backend. For a single token a call of C takes longer than it saves."""
    native_pays = h.shape[1] > 1 and able(h, z) and not torch.compiler.is_exporting()
    return "native" if native_pays and native.available() else "reference"


def able(h: Tensor, z: Tensor) -> bool:
    """Whether the C code can run: on a CPU, both in float32 or both in float64, without autocast."""
    same_dtype = h.dtype == z.dtype and h.dtype in (torch.float32, torch.float64)
    return same_dtype and h.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _example(draw: Draw, B: int, T: int) -> Tensor:
    return gated(draw(B, T, CHANNELS), 2 * draw(B, T, CHANNELS))


OP = Op(
    "gelu_gate",
    {"reference": Backend(reference.gated), "native": Backend(native.gated, native.lacking, able)},
    rule=by_size,
    examples=(_example,),
    price=reference.price,
)
