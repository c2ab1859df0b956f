"""The four shapes of taps: the shape for a number of groups, the price of a lag sum, and a view of the taps."""

from typing import Literal, TypeAlias

from torch import Tensor

from seqloom.core.cost import Cost, Span
from seqloom.core.view import View

Groups: TypeAlias = int | Literal["shared"]


def shape(dim: int, groups: Groups) -> tuple[int, ...]:
    """The shape of one tap for `dim` channels that mix inside each of `groups` groups, or that share one number.

    ValueError where `groups` does not divide `dim`.
    """
    if groups == "shared":
        return ()
    if groups < 1 or dim % groups:
        raise ValueError(f"dim {dim} is not divisible by groups {groups}: choose groups that divide dim")
    if groups == dim:
        return (dim,)
    return (dim, dim) if groups == 1 else (groups, dim // groups, dim // groups)


def products_per_tap(w: Tensor) -> int:
    """The number of products of one tap in an output channel."""
    return w.shape[-1] if w.ndim > 2 else 1


def price(span: Span, dim: int, lags: int, products: int = 1, dilation: int = 1) -> Cost:
    """The price of the lag sum over `lags` taps with `products` per output channel (Tables 3-6 of the paper).

    With `dilation` δ the lags are 0, δ, 2δ, …
    """
    used_taps = min(lags, -(-span.T // dilation))  # which have an input at the last position
    terms = used_taps if span.per == "token" else used_taps * span.T - dilation * (used_taps * (used_taps - 1) // 2)
    return Cost(
        mul=terms * dim * products,
        add=terms * dim * (products - 1) + (terms - span.rows) * dim,
        path=("multiplication", "cumulation"),
    )


def view(w: Tensor) -> View:
    """The view of taps (L, …); of matrices it is the root mean square over the input channels."""
    if w.ndim == 1:
        return View("taps", "the weight of the input at each lag, shared by all channels", ("lag",), w)
    if w.ndim == 2:
        return View("taps", "the weight of a channel's own input at each lag", ("lag", "channel"), w)
    root_mean_square = w.square().mean(-2).sqrt().flatten(1)
    meaning = "how strongly an output channel reads its group's inputs at each lag, root mean square"
    return View("taps", meaning, ("lag", "channel"), root_mean_square)
