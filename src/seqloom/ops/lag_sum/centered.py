"""The lag sum over both sides: each output is a weighted sum of the inputs around it, weighted by their distance.

    y_i = Σ_{k=-(L-1)}^{L-1} x_{i-k} W_{k+L-1}           inputs before the first and after the last are 0

It is the causal lag sum of 2L-1 taps, L-1 tokens later: its backends and their rule are those of `seqloom.ops.lag_sum`.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.cost import Cost, Span
from seqloom.core.shapes import Stream
from seqloom.core.view import View
from seqloom.ops import backends
from seqloom.ops.lag_sum import lags, taps
from seqloom.ops.lag_sum.reference import product


def centered(x: Stream, w: Float[Tensor, "taps ..."]) -> Stream:
    """The sum around each token of x (B, T, D) under 2L-1 taps, of the shapes that `lags` takes.

    Raises ValueError for an even number of taps, and where the channels of w and x do not agree.
    """
    if len(w) % 2 == 0:
        raise ValueError(f"a sum over both sides has an odd number of taps, 2L-1, not {len(w)}")
    if backends.forced("lag_sum") == "reference":
        return _reference(x, w)
    middle = len(w) // 2
    side = min(middle, max(x.shape[1] - 1, 0))  # no input is farther away
    near = w[middle - side : middle + side + 1]
    return lags(pad(x, (0, 0, 0, side)), near)[:, side:]


def require_middle(kernel: int) -> None:
    """ValueError for an even number of taps, none of which is a token's own in the middle."""
    if kernel % 2 == 0:
        raise ValueError(
            f"a kernel of {kernel} has no middle, which a bidirectional convolution needs: choose an odd one"
        )


def _reference(x: Tensor, w: Tensor) -> Tensor:
    """Output by output over the inputs that there are, as the causal reference does it."""
    T, side = x.shape[1], len(w) // 2
    outputs = []
    for i in range(T):
        terms = [product(x[:, j], w[i - j + side]) for j in range(max(0, i - side), min(T, i + side + 1))]
        y = terms[0]
        for term in terms[1:]:
            y = y + term
        outputs.append(y)
    return torch.stack(outputs, 1)


def price(span: Span, dim: int, reach: int, inside: int = 1, dilation: int = 1) -> Cost:
    """The sum of whole rows over inputs less than `reach` away, each with `inside` products for a channel.

    With `dilation` the inputs are its multiples away, less than `reach` of them.
    """
    terms = sum(Span(len(range(first, span.T, dilation))).terms_around(reach) for first in range(dilation))
    return Cost(
        mul=terms * dim * inside,
        add=terms * dim * (inside - 1) + (terms - span.rows) * dim,
        path=("multiplication", "cumulation"),
    )


def view(w: Tensor) -> View:
    """As that of the causal taps, with the token's own in the middle."""
    causal = taps.view(w)
    return View(
        causal.name, f"{causal.meaning}; its own is in the middle, later ones before", causal.axes, causal.values
    )
