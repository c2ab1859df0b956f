"""The inputs of a gated mixer's delta rule, from the output of its convolution, with keys and queries of length 1.

    (q, k, v) = x                               H heads of q and k of width K, G of v; a head of q, k serves G/H of v
    q ← q / √(Σ q² + 1e-6) / √K,   k ← k / √(Σ k² + 1e-6)         per head
    write = β k,   erase = left ∘ k             left = e^g, one per head of values, or one per channel; None for 1

Source: Yang et al., arXiv:2412.06464, and the authors' flash-linear-attention. Nothing differs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.ops.checked import checked
from seqloom.ops.delta_inputs import native, reference
from seqloom.ops.delta_inputs.reference import Inputs
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


def inputs(
    x: Stream, left: Float[Tensor, "B T G E"] | None, beta: Float[Tensor, "B T G"], heads: int, K: int
) -> Inputs:
    """q, write, v and erase (B, T, G, K or V) from x (B, T, 2 H K + G V), for H = `heads`. Differentiable twice.

    Backends: `reference` in torch, and `native` in C on a CPU, in one pass over memory forward and one backward.
    Raises ValueError where sizes do not agree.
    """
    require_sizes(x, left, beta, heads, K)
    if x.numel() == 0:
        return reference.inputs(x, left, beta, heads, K)
    backend = OP.choose(x, beta, *([] if left is None else [left]))
    delta_inputs: Inputs = OP[backend](x, left, beta, heads, K)
    return delta_inputs


@checked("delta_inputs")
def require_sizes(
    x: Float[Tensor, "B T C"], left: Float[Tensor, "B T G E"] | None, beta: Float[Tensor, "B T G"], heads: int, K: int
) -> None:
    """Raises ValueError where sizes do not agree; g has the sizes of `left`."""
    C, G = x.shape[2], beta.shape[2]
    heads_misfit = heads < 1 or G < 1 or G % heads or K < 1
    if (
        heads_misfit
        or 2 * heads * K >= C
        or (C - 2 * heads * K) % G
        or (left is not None and left.shape[3] not in (1, K))
    ):
        raise ValueError(f"delta_inputs: {C} channels are not {heads} heads of keys {K} wide and {G} heads of values")


def by_size(*tensors: Tensor) -> str:
    """The fastest backend for x, β and `left`. An exported graph must run where there is no native code."""
    return "native" if able(*tensors) and not torch.compiler.is_exporting() and native.available() else "reference"


def able(x: Tensor, *others: Tensor) -> bool:
    """Whether the C code can run: on a CPU, all in float32 or all in float64, without autocast."""
    same_dtype = x.dtype in (torch.float32, torch.float64) and all(tensor.dtype == x.dtype for tensor in others)
    return same_dtype and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _by_head(draw: Draw, B: int, T: int) -> Inputs:
    return inputs(draw(B, T, 3 * CHANNELS), draw(B, T, 4, 1), draw(B, T, 4), 2, CHANNELS // 4)


def _by_channel(draw: Draw, B: int, T: int) -> Inputs:
    return inputs(draw(B, T, 3 * CHANNELS), draw(B, T, 4, CHANNELS // 4), draw(B, T, 4), 4, CHANNELS // 4)


def _without_decay(draw: Draw, B: int, T: int) -> Inputs:
    return inputs(draw(B, T, 3 * CHANNELS), None, draw(B, T, 2), 1, CHANNELS // 4)


OP = Op(
    "delta_inputs",
    {
        "reference": Backend(reference.inputs),
        "native": Backend(native.inputs, native.lacking, able),
    },
    rule=by_size,
    examples=(_by_head, _by_channel, _without_decay),
    price=reference.price,
)
