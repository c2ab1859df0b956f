"""The sums over earlier positions as they are written, one by one, and their price, counted from them; slow."""

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Span


def triangular(x: Tensor, w: Tensor, t: Tensor | None) -> Tensor:
    """See `triangular` of the package."""
    if t is None:
        return torch.stack([_at(x, w, position) for position in range(x.shape[1])], 1)
    rows = [[_at(x[b : b + 1], w, position) for position in row] for b, row in enumerate(t.tolist())]
    return torch.cat([torch.stack(row, 1) for row in rows])


def _at(x: Tensor, w: Tensor, position: int) -> Tensor:
    """The outputs (B, O, D) at one position."""
    end = min(position + 1, x.shape[1])
    return w[position, :, :end].flatten(1) @ x[:, :end].flatten(1, 2)


def price(span: Span, dim: int, inputs: int = 1, outputs: int = 1) -> Cost:
    """The price of one row, given the number of inputs and outputs per position, each of `dim` channels."""
    terms = span.terms() * inputs
    return Cost(
        mul=terms * outputs * dim,
        add=(terms - span.rows) * outputs * dim,
        path=("multiplication", "cumulation"),
    )
