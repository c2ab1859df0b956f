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
    "threads gate B T H V N z_step",
    *READS,
    Argument("out", "B T H*V", written=True),
    least="threads V",
)
BACKWARD = Entry(
    "gated_norm",
    SOURCE,
    "backward",
    "threads gate B T H V N z_step dout_step",
    *READS,
    Argument("dout", "B T H*V", step="dout_step"),
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
    out: Tensor = OPERATORS["none" if z is None else gate](y, z, gain, y.new_full((1,), eps))
    return out


def _normed(gate: int, y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor) -> Tensor:
    out = y.new_empty(*y.shape[:2], y.shape[2] * y.shape[3])
    _checked(FORWARD(y, z, gain.flatten(), eps, out, threads=native.threads(y.numel()), gate=gate))
    return out


def _gradients(
    gate: int, y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, dout: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    B, T, _, V = y.shape
    threads = native.threads(y.numel())
    dy, dz = y.new_empty(y.shape), None if z is None else z.new_empty(z.shape)
    spans = -(-B * T // SPAN)
    sums, scratch = y.new_empty(spans, gain.numel()), y.new_empty(threads, V)
    arguments = (y, z, gain.flatten(), eps, dout, dy, dz, sums, scratch)
    _checked(BACKWARD(*arguments, threads=threads, gate=gate, spans=spans))
    dgain = sums.sum(0, dtype=torch.float64).to(gain.dtype).view_as(gain)
    return dy, y.new_empty(0) if dz is None else dz, dgain


def _checked(error: int) -> None:
    if error:
        raise ValueError("gated_norm: the gain must have the size of a head or of all heads, and a gate needs z")


def _gradient_shapes(y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, dout: Tensor) -> list[tuple[int, ...]]:
    return [(0,) if tensor is None else tuple(tensor.shape) for tensor in (y, z, gain)]


def _operator(gate: int) -> Operator:
    """The operator of one gate, by its index in `GATES`."""

    def forward(y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor) -> Tensor:
        return _normed(gate, y, z, gain, eps)

    def backward(y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, dout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _gradients(gate, y, z, gain, eps, dout)

    def differentiable(y: Tensor, z: Tensor | None, gain: Tensor, eps: Tensor, dout: Tensor) -> list[Tensor | None]:

        def compute(y: Tensor, z: Tensor | None, gain: Tensor) -> tuple[Tensor]:
            return (reference.normed(y, z, gain, float(eps), GATES[gate]),)

        return differentiate(compute, (y, z, gain), (dout,))

    return paired(
        f"norm_{GATES[gate].replace(' ', '_')}",
        forward,
        backward,
        shapes=lambda y, *rest: [(*y.shape[:2], y.shape[2] * y.shape[3])],
        gradient_shapes=_gradient_shapes,
        save=lambda inputs, outputs: inputs,
        differentiable=differentiable,
    )


OPERATORS = {name: _operator(gate) for gate, name in enumerate(GATES)}
