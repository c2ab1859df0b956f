"""The inputs of the delta rule in C (inputs.c): one pass over memory forward and one backward, threads over tokens.

Two operators of torch. Results do not depend on the number of threads.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import differentiate, paired
from seqloom.ops.delta_inputs import reference
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("inputs.c")
READS = (
    Argument("x", "B T 2*H*K+G*V"),
    Argument("left", "B T G E", optional=True),
    Argument("beta", "B T G"),
)
OUTPUTS = ("q", "write", "v", "erase")
FORWARD = Entry(
    "delta_inputs",
    SOURCE,
    "forward",
    "threads B T H G K V E",
    *READS,
    *(Argument(name, f"B T G {'V' if name == 'v' else 'K'}", written=True) for name in OUTPUTS),
    least="threads H",
)
BACKWARD = Entry(
    "delta_inputs",
    SOURCE,
    "backward",
    "threads B T H G K V E",
    *READS,
    *(Argument(f"d{name}", f"B T G {'V' if name == 'v' else 'K'}") for name in OUTPUTS),
    Argument("dx", "B T 2*H*K+G*V", written=True),
    Argument("dleft", "B T G E", optional=True, written=True),
    Argument("dbeta", "B T G", written=True),
    least="threads H",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def inputs(x: Tensor, left: Tensor | None, beta: Tensor, heads: int, K: int) -> reference.Inputs:
    """As `reference.inputs`, in float32 or float64. ValueError where there is no native code."""
    q, write, v, erase = forward(x, left, beta, heads, K)
    return q, write, v, erase


def _sizes(x: Tensor, left: Tensor | None, beta: Tensor, H: int, K: int) -> dict[str, int]:
    """The sizes that do not follow from a single tensor."""
    V = max(x.shape[2] - 2 * H * K, 0) // max(beta.shape[2], 1)
    E = 0 if left is None else left.shape[3]
    return {"H": H, "K": K, "V": V, "E": E, "threads": native.threads(x.numel())}


def _forward(x: Tensor, left: Tensor | None, beta: Tensor, heads: int, K: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sizes = _sizes(x, left, beta, heads, K)
    q, write, erase = (x.new_empty(*beta.shape, K) for _ in range(3))
    v = x.new_empty(*beta.shape, sizes["V"])
    _checked(FORWARD(x, left, beta, q, write, v, erase, **sizes))
    return q, write, v, erase


def _backward(
    x: Tensor,
    left: Tensor | None,
    beta: Tensor,
    q: Tensor,
    v: Tensor,
    dq: Tensor,
    dwrite: Tensor | None,
    dv: Tensor | None,
    derase: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    sizes = _sizes(x, left, beta, _heads(x, q, v), q.shape[3])
    dv = torch.zeros_like(v) if dv is None else dv
    dwrite, derase = (torch.zeros_like(q) if gradient is None else gradient for gradient in (dwrite, derase))
    dx, dbeta = x.new_empty(x.shape), beta.new_empty(beta.shape)
    dleft = None if left is None else left.new_empty(left.shape)
    _checked(BACKWARD(x, left, beta, dq, dwrite, dv, derase, dx, dleft, dbeta, **sizes))
    return dx, x.new_empty(0) if dleft is None else dleft, dbeta


def _heads(x: Tensor, q: Tensor, v: Tensor) -> int:
    """The number of heads of keys, from the channels of x that are not values."""
    return (x.shape[2] - v.shape[2] * v.shape[3]) // (2 * q.shape[3])


def _checked(error: int) -> None:
    if error:
        raise ValueError("delta_inputs: heads of values must be a multiple of those of keys, and decays one or K each")


def _differentiable(*saved_and_grads: Any) -> list[Tensor | None]:
    """The gradients computed by torch's operations, so that they can be differentiated again."""
    x, left, beta, q, v, *grads = saved_and_grads
    heads, K = _heads(x, q, v), q.shape[3]

    def compute(x: Tensor, left: Tensor | None, beta: Tensor) -> reference.Inputs:
        return reference.inputs(x, left, beta, heads, K)

    return differentiate(compute, (x, left, beta), grads)


def _shapes(x: Tensor, left: Tensor | None, beta: Tensor, heads: int, K: int) -> list[tuple[int, ...]]:
    B, T, G = beta.shape
    V = (x.shape[2] - 2 * heads * K) // G
    return [(B, T, G, K), (B, T, G, K), (B, T, G, V), (B, T, G, K)]


def _gradient_shapes(x: Tensor, left: Tensor | None, beta: Tensor, *rest: Tensor | None) -> list[tuple[int, ...]]:
    return [(0,) if tensor is None else tuple(tensor.shape) for tensor in (x, left, beta)]


forward = paired(
    "delta_inputs",
    _forward,
    _backward,
    shapes=_shapes,
    gradient_shapes=_gradient_shapes,
    save=lambda inputs, outputs: (*inputs[:3], outputs[0], outputs[2]),
    differentiable=_differentiable,
    results=4,
)
