"""The bidirectional lag sum: each output is a weighted sum of the inputs around it, with weights by their distance.

    y_i = Σ_{k=-(L-1)}^{L-1} x_{i-k} W_{k+L-1}           inputs before the first and after the last are 0

It is the causal lag sum with 2L-1 taps, shifted by L-1 tokens, and uses the backends of `seqloom.ops.lag_sum`.
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


def sum_centered(x: Stream, w: Float[Tensor, "taps ..."]) -> Stream:
    """The sum around each token of x (B, T, D) under 2L-1 taps, of the shapes that `lags` takes.

    Raises ValueError for an even number of taps, and where the channels of w and x do not agree.
    """
    if len(w) % 2 == 0:
        raise ValueError(f"a sum over both sides has an odd number of taps, 2L-1, not {len(w)}")
    if backends.forced_backend("lag_sum") == "reference":
        return _reference(x, w)
    middle = len(w) // 2
    reach = min(middle, max(x.shape[1] - 1, 0))  # taps beyond the sequence have no input
    taps_with_inputs = w[middle - reach : middle + reach + 1]
    return lags(pad(x, (0, 0, 0, reach)), taps_with_inputs)[:, reach:]


def require_middle(kernel: int) -> None:
    """Raises ValueError for an even number of taps, which has no tap in the middle for the token itself."""
    if kernel % 2 == 0:
        raise ValueError(
            f"a kernel of {kernel} has no middle, which a bidirectional convolution needs: choose an odd one"
        )


def _reference(x: Tensor, w: Tensor) -> Tensor:
    """The sum output by output, over the inputs that exist, as in the causal reference."""
    T, middle = x.shape[1], len(w) // 2
    outputs = []
    for i in range(T):
        terms = [product(x[:, j], w[i - j + middle]) for j in range(max(0, i - middle), min(T, i + middle + 1))]
        y = terms[0]
        for term in terms[1:]:
            y = y + term
        outputs.append(y)
    return torch.stack(outputs, 1)


def price(span: Span, dim: int, reach: int, products: int = 1, dilation: int = 1) -> Cost:
    """The price of rows with inputs less than `reach` away, each with `products` products per output channel.

    With `dilation` δ the inputs are 0, δ, 2δ, … tokens away, at most `reach` of them on each side.
    """
    terms = sum(Span(len(range(first, span.T, dilation))).terms_around(reach) for first in range(dilation))
    return Cost(
        mul=terms * dim * products,
        add=terms * dim * (products - 1) + (terms - span.rows) * dim,
        path=("multiplication", "cumulation"),
    )


def view(w: Tensor) -> View:
    """The view of the taps as in `taps.view`, with the tap of the token itself in the middle."""
    causal = taps.view(w)
    return View(
        causal.name, f"{causal.meaning}; its own is in the middle, later ones before", causal.axes, causal.values
    )
