"""The norm and the gate in C (norm.c): one pass over memory forward and one backward, threads over tokens.

There is an operator of torch for each gate. Results do not depend on the number of threads.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import Operator, differentiate, paired
from seqloom.ops.gated_norm import reference
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("norm.c")
GATES = ("none", "silu", "sigmoid", "silu first")
"""the gates, numbered as in the C code"""
SPAN = 64
"""tokens of a task, each with sums of its own for the gain, the same number as in the C code"""
READS = (
    Argument("y", "B T H V"),
    Argument("z", "B T H*V", optional=True, step="z_step"),
    Argument("gain", "N"),
    Argument("eps", "1"),
)
FORWARD = Entry(
    "gated_norm",
    SOURCE,
    "forward",
    "threads way B T H V N z_step",
    *READS,
    Argument("out", "B T H*V", written=True),
    least="threads V",
)
BACKWARD = Entry(
    "gated_norm",
    SOURCE,
    "backward",
    "threads way B T H V N z_step given_step",
    *READS,
    Argument("given", "B T H*V", step="given_step"),
    Argument("dy", "B T H V", written=True),
    Argument("dz", "B T H*V", optional=True, written=True),
    Argument("sums", "spans N", written=True),
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


def normed(y: Tensor, z: Tensor | None, gain: Tensor, eps: float, gate: str) -> Tensor:
    """As `reference.normed`, in float32 or float64. ValueError where there is no native code."""
    out: Tensor = BY_GATE["none" if z is None else gate](y, z, gain, y.new_full((1,), eps))
    return out


def _computed(way: int, y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor) -> Tensor:
    out = y.new_empty(*y.shape[:2], y.shape[2] * y.shape[3])
    _right(FORWARD(y, z, gain.flatten(), eps, out, threads=native.threads(y.numel()), way=way))
    return out


def _gradients(
    way: int, y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    (B, T, _, V), threads = y.shape, native.threads(y.numel())
    dy, dz = y.new_empty(y.shape), None if z is None else z.new_empty(z.shape)
    spans = -(-B * T // SPAN)
    sums, scratch = y.new_empty(spans, gain.numel()), y.new_empty(threads, V)
    arguments = (y, z, gain.flatten(), eps, slope, dy, dz, sums, scratch)
    _right(BACKWARD(*arguments, threads=threads, way=way, spans=spans))
    dgain = sums.sum(0, dtype=torch.float64).to(gain.dtype).view_as(gain)
    return dy, y.new_empty(0) if dz is None else dz, dgain


def _right(status: int) -> None:
    if status:
        raise ValueError("gated_norm: the gain must have the size of a head or of all heads, and a gate needs z")


def _gradient_shapes(y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, slope: Tensor) -> list[tuple[int, ...]]:
    return [(0,) if tensor is None else tuple(tensor.shape) for tensor in (y, z, gain)]


def _operator(way: int) -> Operator:
    def forward(y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor) -> Tensor:
        return _computed(way, y, z, gain, eps)

    def backward(
        y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, slope: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        return _gradients(way, y, z, gain, eps, slope)

    def differentiable(y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, slope: Tensor) -> list[Tensor | None]:

        def compute(y: Tensor, z: Tensor | None, gain: Tensor) -> tuple[Tensor]:
            return (reference.normed(y, z, gain, float(eps), GATES[way]),)

        return differentiate(compute, (y, z, gain), (slope,))

    return paired(
        f"norm_{GATES[way].replace(' ', '_')}",
        forward,
        backward,
        shapes=lambda y, *rest: [(*y.shape[:2], y.shape[2] * y.shape[3])],
        gradient_shapes=_gradient_shapes,
        save=lambda inputs, outputs: inputs,
        differentiable=differentiable,
    )


BY_GATE = {gate: _operator(way) for way, gate in enumerate(GATES)}
