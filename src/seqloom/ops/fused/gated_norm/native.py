"""The norm and the gate in C (norm.c): one pass over memory forward and one backward, threads over tokens.

Results do not depend on the number of threads.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.fused.gated_norm import reference
from seqloom.ops.kernel import Kernel, empty_for_none

GATES = ("none", "silu", "sigmoid", "silu first")
"""the gates, numbered as in the C code"""
SPAN = 64
"""tokens of a task, each with sums of its own for the gain, the same number as in the C code"""
NUMBERS = "threads gate B T H V N"
READS = "y(B T H V) z?(B T H*V, z_step) gain(N) eps(1)"
MISFIT = "the gain must have the size of a head or of all heads, and a gate needs z"
KERNEL = Kernel("gated_norm", Path(__file__).with_name("norm.c"), least="threads V")
FORWARD = KERNEL.function("forward", NUMBERS, READS, makes="out(B T H*V)", fails=MISFIT)
BACKWARD = KERNEL.function(
    "backward",
    NUMBERS,
    f"{READS} dout(B T H*V, dout_step)",
    makes="dy(B T H V) dz?z(B T H*V) sums(spans N)",
    room="scratch(threads V)",
    fails=MISFIT,
)


def normalize(y: Tensor, z: Tensor | None, gain: Tensor, eps: float, gate: str) -> Tensor:
    """As `reference.normalize`, in float32 or float64. ValueError where there is no native code."""
    out: Tensor = forward(y, z, gain, eps, GATES.index("none" if z is None else gate))
    return out


def _forward(y: Tensor, z: Tensor | None, gain: Tensor, eps: float, gate: int) -> Tensor:
    out: Tensor = FORWARD(y, z, gain.flatten(), y.new_full((1,), eps), threads=native.threads(y.numel()), gate=gate)
    return out


def _backward(
    y: Tensor, z: Tensor | None, gain: Tensor, eps: float, gate: int, dout: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = y, z, gain.flatten(), y.new_full((1,), eps), dout
    spans = -(-y.shape[0] * y.shape[1] // SPAN)
    dy, dz, sums = BACKWARD(*inputs, threads=native.threads(y.numel()), gate=gate, spans=spans)
    dgain = sums.sum(0, dtype=torch.float64).to(gain.dtype).view_as(gain)
    return dy, *empty_for_none(y, dz), dgain


def _compute(y: Tensor, z: Tensor | None, gain: Tensor, eps: float, gate: int) -> Tensor:
    return reference.normalize(y, z, gain, eps, GATES[gate])


forward = KERNEL.operator("gated_norm", _forward, _backward, _compute)
