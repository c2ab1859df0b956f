"""The biased average over whole rows: every query reads all keys, with a bias for each pair.

    y_t = (Σ_j e^{k_j + w_{tj}} v_j) / (Σ_j e^{k_j + w_{tj}})            e^{w} is one matrix for all rows and channels

As in the causal form the biases of a query must lie within 60 of each other in float32, within 600 in float64. Keys may
have any size, since every query reads the largest one.

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103, Eq. 2, which is not causal.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import backends
from seqloom.ops.biased_average.total import Keys
from seqloom.ops.past.pack import within


def whole(k: Keys, v: Stream, w: Float[Tensor, "*K T T"], lengths: Lengths | None = None) -> Stream:
    """The average of v (B, T, D) under keys (B, T, K), K dividing D, with one matrix of biases or one for each key.

    With `lengths` (B,) a row has that many tokens; keys after them are left out.
    """
    e, pairs = _exponentials(k, w)
    if lengths is not None:
        e = torch.where(within(lengths, k.shape[1])[:, :, None], e, 0.0)
    values = v.unflatten(-1, (k.shape[2], -1)) * e[..., None]  # (B, T, K, V)
    equation = "ts, bskv -> btkv" if w.ndim == 2 else "kts, bskv -> btkv"
    sums = torch.einsum(equation, pairs, torch.cat([values, e[..., None]], -1))
    denominators = sums[..., -1:]
    if lengths is not None:
        # a row without tokens has the denominator 0, and its output is not used
        denominators = denominators.clamp_min(torch.finfo(denominators.dtype).tiny)
    return (sums[..., :-1] / denominators).flatten(2)


def by_lag(taps: Float[Tensor, "*n lags K"], T: int) -> Float[Tensor, "K T T"]:
    """Biases of the lags -(L-1) … L-1, the same for all queries or a row per query, as matrices; 0 at larger lags."""
    position = torch.arange(T, device=taps.device)
    largest_lag = taps.shape[-2] // 2
    missing_lags = max(0, T - 1 - largest_lag)
    taps = pad(taps, (0, 0, missing_lags, missing_lags))
    tap = position[:, None] - position + largest_lag + missing_lags  # the index of the tap of each pair
    matrices = taps[tap] if taps.ndim == 2 else taps[position[:, None], tap]  # (T, T, K)
    return matrices.movedim(-1, 0)


def in_reach(w: Float[Tensor, "T T"], window: int) -> Float[Tensor, "T T"]:
    """The biases of keys less than `window` away, 0 for the others."""
    return w.tril(window - 1).triu(1 - window)


def price(T: int, keys: int, dim: int, tables: int = 1) -> Cost:
    """The price of a row of T tokens with `keys` keys for `dim` channels, and `tables` matrices e^w."""
    pairs, sums = T * T, dim + keys
    return Cost(
        mul=T * dim + pairs * sums,
        add=(pairs - T) * sums,
        div=T * dim,
        exp=T * keys + tables * pairs,
        path=("exponentiation", "multiplication", "cumulation", "division"),
    )


def _exponentials(k: Keys, w: Tensor) -> tuple[Tensor, Tensor]:
    """e^k and e^w; except in the reference divided by the largest one of each row or query, which cancels."""
    if backends.forced_backend("biased_average") == "reference":
        return k.exp(), w.exp()
    largest_key = k.detach().amax(1, keepdim=True)
    largest_bias = w.detach().amax(-1, keepdim=True)
    return (k - largest_key).exp(), (w - largest_bias).exp()
