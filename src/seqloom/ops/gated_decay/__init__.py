"""A decay and an input that a token sets for each channel, such that what is summed stays as loud as what comes in.

    [r i] = σ(u W + b)                       W block-diagonal, (H, N, 2N): of each block N numbers r, then N numbers i
    log a = -c r ∘ softplus(Λ)
    b = √(1 - a²) ∘ (i ∘ u)                  1 in place of the root at a first token

Both go into `scans`. 1 - a² is -(e^{2 log a} - 1) in one piece; the derivative of the root is at most 1000.

Source: De et al., Griffin, arXiv:2402.19427, section 2.4, and the authors' recurrentgemma, whose Λ is minus the paper's
and which bounds the derivative.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.ops.gated_decay import price, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


def gated(
    u: Stream,
    weight: Float[Tensor, "H N M"],
    bias: Float[Tensor, "H M"],
    rate: Float[Tensor, " D"],
    fresh: Bool[Tensor, " B"] | bool,
) -> tuple[Stream, Stream]:
    """a and b (B, T, D) of u (B, T, D), in float32 or better; Λ is `rate`, and M = 2N.

    `fresh` is whether the first token of each row is the first of its text. Differentiable twice.
    """
    exact = torch.promote_types(u.dtype, torch.float32)
    return OP[OP.choose(u)](u, weight, bias, rate.to(exact), fresh)


def by_size(u: Tensor) -> str:
    """The only backend."""
    return "reference"


def _example(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    N = CHANNELS // 4
    return gated(draw(B, T, CHANNELS), draw(4, N, 2 * N), draw(4, 2 * N), draw(CHANNELS), True)


def _later(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    fresh = torch.arange(B) % 2 == 0
    return gated(draw(B, T, CHANNELS), draw(1, CHANNELS, 2 * CHANNELS), draw(1, 2 * CHANNELS), draw(CHANNELS), fresh)


OP = Op(
    "gated_decay",
    {"reference": Backend(reference.gated)},
    rule=by_size,
    examples=(_example, _later),
    price=price,
)
