"""Random features: vectors φ(q), φ(k) whose product is a kernel of q and k in expectation over random directions.

    softmax      φ(x) = e^{w·x - |x|²/2} / √R                       E φ(q)·φ(k) = e^{q·k}
    hyperbolic   φ(x) = [e^{w·x - |x|²/2}, e^{-w·x - |x|²/2}] / √2R     the same, of lower variance
    relu         φ(x) = max(w·x, 0) / √R + ε                        no exponential kernel; ε = 1e-3 keeps sums above 0
    trigonometric  φ(x) = [sin(w·x), cos(w·x)] / √R                 E φ(q)·φ(k) = e^{-|q-k|²/2}; of any sign

w are R rows from N(0, 1); orthogonal rows (`draws`) have the same mean and a lower variance. The exponentials could
overflow, so `positive` divides φ(q) by its largest entry, and φ(k) by the largest of all keys *so far*. The sums of
`seqloom.ops.linear_decay` are rescaled accordingly by a decay, and the factors cancel in the average.

`reading` computes the average; `reference` has the prices of all.

Source: Choromanski et al., arXiv:2009.14794, Lemma 1, Theorem 2 and section 3; trigonometric: Rahimi and Recht, 2007,
and Peng et al., arXiv:2103.02143, Eq. 2. What differs: Performer's authors divide keys by the maximum over the whole
sequence, which looks ahead and is done here only for bidirectional rows; and they add 1e-4 to each exponential, which
makes a bias and is not done here.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.graphs import capturing
from seqloom.core.shapes import Lengths
from seqloom.ops.native import is_observed
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within
from seqloom.ops.random_features import fused, reference, stable
from seqloom.ops.random_features.features import LOGARITHMS, hyperbolic_log, relu, softmax_log, trigonometric, unit
from seqloom.ops.random_features.reading import SHARE, average, count_tokens, sum_gates, whole
from seqloom.ops.random_features.stable import LOWEST

__all__ = [
    "LOWEST",
    "SHARE",
    "along",
    "average",
    "count_tokens",
    "hyperbolic_log",
    "positive",
    "positive_whole",
    "relu",
    "softmax_log",
    "sum_gates",
    "trigonometric",
    "unit",
    "whole",
]


def positive(
    q: Float[Tensor, "B H T F"],
    k: Float[Tensor, "B H T F"],
    peak: Float[Tensor, "B H"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[
    Float[Tensor, "B H T F"], Float[Tensor, "B H T F"], Float[Tensor, "B H T"] | None, Float[Tensor, "B H"] | None
]:
    """Features φ of queries and keys from the logarithms of the features, a decay, and the new peak.

    The sums over earlier keys are stored divided by e^peak. `peak` is LOWEST in rows that have read nothing, and None
    if no row has read anything. `lengths` (B,) are the tokens of each row; keys of padding get features 0. The
    decay is g of `seqloom.ops.linear_decay`, which rescales the sums to the new peak; None if it is not needed.

    With `reference` φ(q)·φ(k) is that of the equation. With `stable` it is between 0 and F, and differs by a factor per
    query that cancels in Σ φ(q)·φ(k) v / Σ φ(q)·φ(k) and is a constant in gradients. As in any softmax small terms
    underflow: in float32 keys below e^-87 of the largest one so far.
    """
    keep = None if lengths is None else within(lengths, k.shape[2])
    q_features, k_features, decay, new_peak = OP[OP.choose()](q, k, peak, keep)
    return q_features, k_features, decay, new_peak


def along(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    w: Float[Tensor, "H R K"],
    kernel: str,
    peak: Float[Tensor, "B H"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[
    Float[Tensor, "B H T F"], Float[Tensor, "B H T F"], Float[Tensor, "B H T"] | None, Float[Tensor, "B H"] | None
]:
    """`positive` of the logarithms of features along directions w, for the softmax or the hyperbolic kernel."""
    keep = None if lengths is None else within(lengths, k.shape[2])
    backend = OP.choose(q, w)
    if backend == "fused":
        w = w.to(q.dtype)
        return fused.exponentials(q, k, torch.cat([w, -w], 1) if kernel == "hyperbolic" else w, peak, keep)
    log_q, log_k = (LOGARITHMS[kernel](x, w) for x in (q, k))
    q_features, k_features, decay, new_peak = OP[backend](log_q, log_k, peak, keep)
    return q_features, k_features, decay, new_peak


def by_size(q: Tensor | None = None, w: Tensor | None = None) -> str:
    """The fastest backend; of logarithms there is only one."""
    return "fused" if _fits_pieces(q, w) else "stable"


def _fits_pieces(q: Tensor | None = None, w: Tensor | None = None) -> bool:
    """Whether the features are made from queries and keys, on a CPU and outside of a graph."""
    if q is None or w is None or q.shape[2] == 0 or w.requires_grad:
        return False
    return q.device.type == "cpu" and not capturing() and not is_observed(q)


def positive_whole(
    q: Float[Tensor, "B H T F"], k: Float[Tensor, "B H T F"], *, lengths: Lengths | None = None
) -> tuple[Float[Tensor, "B H T F"], Float[Tensor, "B H T F"]]:
    """The bidirectional form of `positive`: features of queries and keys of whole rows, from their logarithms.

    All keys of a head are divided by the largest in the row, as Performer's authors do.
    """
    if OP.choose() == "reference":
        return q.exp(), k.exp()
    return stable.whole(q, k, None if lengths is None else within(lengths, k.shape[2]))


def _example(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    numbers = torch.linspace(-3, 3, 3 * CHANNELS, dtype=q.dtype, device=q.device)
    w = numbers.sin().view(4, 3, CHANNELS // 4)  # directions, which have no gradient
    q_features, k_features, log_decay, _ = along(q, k, w, "hyperbolic")
    return average(q_features, k_features, v, log_decay)[0]  # the features' common factors cancel in the average


OP = Op(
    "random_features",
    {
        "reference": Backend(reference.exponentials),
        "stable": Backend(stable.exponentials, plain=True),
        "fused": Backend(fused.exponentials, fits=_fits_pieces),
    },
    rule=by_size,
    examples=(_example,),
    price=reference.features_price,
)
