"""Sums over earlier positions, with a weight for each pair: a product with a lower-triangular matrix of blocks.

    y_to = Σ_{j≤t} Σ_i w_toji x_ji            I inputs and O outputs per position; w (L, O, L, I); j, t < L

Each channel is summed by itself, by the same weights. Weights of pairs j > t are not read.

Source: the lower-triangular spatial matrices of Liu et al., Pay Attention to MLPs, arXiv:2105.08050, section 4, where I
and O are 1. Several inputs and outputs per position are ours.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops.fixed.triangular import reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

Weights: TypeAlias = Float[Tensor, "L O L I"]


def triangular(
    x: Float[Tensor, "B C I D"], w: Weights, t: Int[Tensor, "B T"] | None = None
) -> Float[Tensor, "B T O D"]:
    """The sums at the query positions t, counted from 0; without t at the first C positions, all those of x.

    Values of x after a query's position have no influence, but must be finite. Exactly causal; differentiable twice.
    """
    y: Tensor = OP[OP.choose(x)](x, w, t)
    return y


def choose_backend(x: Tensor) -> str:
    """The name of the only fast backend."""
    return "masked"


def mix_masked(x: Tensor, w: Tensor, t: Tensor | None) -> Tensor:
    """The backend `masked`: one product with the full matrix, in which the weights of later positions are 0."""
    C = x.shape[1]
    j = torch.arange(C, device=x.device)
    if t is None:
        t, rows = j, w[:C, :, :C]
    else:
        rows = w[t][..., :C, :]
    visible = (j <= t[..., None])[..., None, :, None]
    weights = torch.where(visible, rows, 0.0)  # (…, T, O, C, I)
    matrix = weights.flatten(-2).flatten(-3, -2)  # (…, T O, C I)
    return (matrix @ x.flatten(1, 2)).unflatten(1, (-1, w.shape[1]))


def _whole(draw: Draw, B: int, T: int) -> Tensor:
    return triangular(draw(B, T, 2, CHANNELS), draw(T, 3, T, 2))


def _draw_example(draw: Draw, B: int, T: int) -> Tensor:
    return triangular(draw(B, T, 1, CHANNELS), draw(T + 2, 1, T + 2, 1))


OP = Op(
    "triangular",
    {"reference": Backend(reference.triangular), "masked": Backend(mix_masked, plain=True)},
    rule=choose_backend,
    examples=(_whole, _draw_example),
    price=reference.price,
)
