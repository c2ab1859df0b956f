"""The gate in C (gelu.c): one pass over memory forward and one backward, threads over numbers."""

import ctypes
from pathlib import Path

from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import differentiate, paired
from seqloom.ops.gelu_gate import reference
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("gelu.c")
READS = Argument("h", "n"), Argument("z", "n")
FORWARD = Entry(
    "gelu_gate",
    SOURCE,
    "forward",
    "threads n",
    *READS,
    Argument("y", "n", written=True),
    least="threads",
    integer=ctypes.c_int64,
)
BACKWARD = Entry(
    "gelu_gate",
    SOURCE,
    "backward",
    "threads n",
    *READS,
    Argument("dy", "n"),
    Argument("dh", "n", written=True),
    Argument("dz", "n", written=True),
    least="threads",
    integer=ctypes.c_int64,
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def gated(h: Tensor, z: Tensor) -> Tensor:
    """As `reference.gated`, in float32 or float64. ValueError where there is no native code."""
    y: Tensor = forward(h, z)
    return y


def _forward(h: Tensor, z: Tensor) -> Tensor:
    y = h.new_empty(h.shape)
    FORWARD(h.flatten(), z.flatten(), y.view(-1), threads=native.threads(y.numel()))
    return y


def _backward(h: Tensor, z: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
    dh, dz = h.new_empty(h.shape), z.new_empty(z.shape)
    arguments = (h.flatten(), z.flatten(), dy.flatten(), dh.view(-1), dz.view(-1))
    BACKWARD(*arguments, threads=native.threads(h.numel()))
    return dh, dz


forward = paired(
    "gelu_gate",
    _forward,
    _backward,
    shapes=lambda h, z: [h.shape],
    gradient_shapes=lambda h, z, dy: [h.shape, z.shape],
    save=lambda inputs, outputs: inputs,
    differentiable=lambda h, z, dy: differentiate(lambda *inputs: (reference.gated(*inputs),), (h, z), (dy,)),
)
