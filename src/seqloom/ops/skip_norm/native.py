"""The norm, the skip and the gate in C (norm.c): one pass over memory each way, threads over tokens.

They are two operators of torch, which a compiled model calls unchanged. Results do not depend on the number of threads.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import differentiate, paired
from seqloom.ops.native import Argument, Entry
from seqloom.ops.skip_norm import reference

SOURCE = Path(__file__).with_name("norm.c")
SPAN = 64
"""tokens of a task, which has sums of its own for the gradients of gain and skip; the same number as in the C code"""
READS = (
    Argument("x", "B T H V"),
    Argument("gain", "H*V"),
    Argument("skip", "H*V"),
    Argument("c", "B T H*V", step="c_step"),
    Argument("z", "B T H*V", step="z_step"),
    Argument("eps", "1"),
)
FORWARD = Entry(
    "skip_norm",
    SOURCE,
    "forward",
    "threads B T H V c_step z_step",
    *READS,
    Argument("y", "B T H*V", written=True),
    least="threads V",
)
BACKWARD = Entry(
    "skip_norm",
    SOURCE,
    "backward",
    "threads B T H V c_step z_step dy_step",
    *READS,
    Argument("dy", "B T H*V", step="dy_step"),
    Argument("dx", "B T H V", written=True),
    Argument("dc", "B T H*V", written=True),
    Argument("dz", "B T H*V", written=True),
    Argument("sums", "spans 2 H*V", written=True),
    Argument("scratch", "threads V", written=True),
    least="threads V",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def normed(x: Tensor, gain: Tensor, skip: Tensor, c: Tensor, z: Tensor, eps: float) -> Tensor:
    """As `reference.normed`, in float32 or float64. ValueError where there is no native code."""
    y: Tensor = forward(x, gain, skip, c, z, x.new_full((1,), eps))
    return y


def _forward(x: Tensor, gain: Tensor, skip: Tensor, c: Tensor, z: Tensor, eps: Tensor) -> Tensor:
    y = x.new_empty(c.shape)
    FORWARD(x, gain, skip, c, z, eps, y, threads=native.threads(x.numel()))
    return y


def _backward(
    x: Tensor, gain: Tensor, skip: Tensor, c: Tensor, z: Tensor, eps: Tensor, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (B, T, _, V), threads = x.shape, native.threads(x.numel())
    dx, dc, dz = x.new_empty(x.shape), c.new_empty(c.shape), z.new_empty(z.shape)
    sums, scratch = x.new_empty(-(-B * T // SPAN), 2, len(gain)), x.new_empty(threads, V)
    arguments = (x, gain, skip, c, z, eps, dy, dx, dc, dz, sums, scratch)
    BACKWARD(*arguments, threads=threads, spans=len(sums))
    dgain, dskip = sums.sum(0, dtype=torch.float64).to(x.dtype).unbind(0)
    return dx, dgain.clone(), dskip.clone(), dc, dz


def _differentiable(*saved_and_dy: Any) -> list[Tensor | None]:
    """The gradients by torch's operations, so that they can be differentiated again."""
    *arguments, eps, dy = saved_and_dy

    def compute(x: Tensor, gain: Tensor, skip: Tensor, c: Tensor, z: Tensor) -> tuple[Tensor]:
        return (reference.normed(x, gain, skip, c, z, float(eps)),)

    return differentiate(compute, arguments, (dy,))


forward = paired(
    "skip_norm",
    _forward,
    _backward,
    shapes=lambda x, gain, skip, c, *rest: [c.shape],
    gradient_shapes=lambda *inputs: [tensor.shape for tensor in inputs[:5]],
    save=lambda inputs, outputs: inputs,
    differentiable=_differentiable,
)
