"""Positive features as they are written, without stabilization, and the prices of features and averages.

The exponentials overflow where e^x does. They are computed with only the terms of the equation, so that counting their
operations prices the equation; a maximum for stabilization is not part of a price. A state that was divided by e^peak
is multiplied by it, by the first token's decay.

Prices are those of n tokens in H heads of width K with R directions. z is priced as the value 1 that it is computed
with.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.ops.linear_decay import total
from seqloom.ops.linear_decay.reference import price as sum_price
from seqloom.ops.random_features.stable import LOWEST


def exponentials(
    q: Tensor, k: Tensor, peak: Tensor | None, keep: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """See `positive` in `seqloom.ops.random_features`; `keep` (B, T) is True at real keys. The new peak is 0."""
    q, k = q.exp(), k.exp()
    if keep is not None:
        k = torch.where(keep[:, None, :, None], k, 0.0)
    new_peak = q.new_zeros(q.shape[:2])
    if peak is None or not bool(((peak > LOWEST) & (peak != 0)).any()):
        return q, k, None, new_peak
    g = q.new_zeros(q.shape[:3])
    g[:, :, 0] = torch.where(peak > LOWEST, peak, 0.0)
    return q, k, g, new_peak


def unit_price(n: int, H: int, K: int) -> Cost:
    """The price of normalizing `n` vectors in each of H heads to length 1."""
    squares = Cost(mul=n * H * K, add=n * H * K, path=("multiplication", "cumulation"))  # and the 1e-6 under the root
    return squares + Cost(div=n * H * K, other=n * H, path=("other", "division"))


def features_price(n: int, kernel: str, H: int, R: int, K: int) -> Cost:
    """The price of φ of a vector per token and head, for a kernel of `seqloom.ops.random_features`."""
    projection = Cost(mul=n * H * R * K, add=n * H * R * (K - 1), path=("multiplication", "cumulation"))
    if kernel == "relu":
        scaled = Cost(div=n * H * K, path=("division",))
        return scaled + projection + Cost(add=n * H * R, other=n * H * R, path=("other", "addition"))
    if kernel == "trigonometric":
        return projection + Cost(div=n * 2 * H * R, other=n * 2 * H * R, path=("other", "division"))
    F = R if kernel == "softmax" else 2 * R
    squares = Cost(mul=n * H * K, add=n * H * K, div=n * H)  # |x|²/2 + ln(F)/2
    opposite = Cost(other=n * H * (F - R))
    return projection + squares + opposite + Cost(add=n * H * F, exp=n * H * F, path=("addition", "exponentiation"))


def average_price(n: int, H: int, F: int, V: int) -> Cost:
    """The price of the sum of F features times values of width V and its outputs, without decay, weights or `least`."""
    return sum_price(n, H, F, V + 1) + Cost(div=n * H * V, other=n * H, path=("division",))


def whole_price(n: int, H: int, F: int, V: int) -> Cost:
    """The price of the bidirectional sum and of its outputs, without weights or `least`."""
    return total.price(n, H, F, V + 1) + Cost(div=n * H * V, other=n * H, path=("division",))


def gates_price(n: int, H: int, F: int, V: int) -> Cost:
    """What gates add to `average_price`: g and 1 - g of each token, weighted values, decay of S, and `least`."""
    products = H * V + H * F * (V + 1)  # weights times values, decay times S
    per_head = n * 4 * H  # of σ, ln σ, their sum and `least`, one operation each
    return Cost(mul=n * (products + H), add=per_head, div=n * H, exp=per_head, other=per_head)


def even_price(n: int, H: int) -> Cost:
    """What `least` adds to `average_price` where every token has the weight 1."""
    return Cost(mul=n, other=n * H)
