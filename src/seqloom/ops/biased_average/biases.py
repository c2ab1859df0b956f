"""Biases by position and lag, from the parameters of a mixer: a table, two factors of a table, or normalized taps.

    table       b_{t,l} = w_{t,t-l}, or w_{t,l}          factors       b_{t,l} = u_t · r_{t-l},    u, r = w
    standard    b_l = gain · (w_l - mean w) / √(var w + 1e-5) + shift                       per head, over the lags

Biases for keys before the first token are arbitrary; they are not used. As in every op, `reference` computes only the
terms of the equation, and computes them again for each token, as a step does; it is used here where it is forced for
`biased_average`.

Source: Zhai et al., arXiv:2105.14103, sections 3.1, 3.2 and "Parameterization". The 1e-5 is ours: without it the
standard deviation of equal taps, or of a single one, would be a division by 0.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import layer_norm, pad

from seqloom.ops import backends
from seqloom.ops.past.limit import Positions

Absolute: TypeAlias = Float[Tensor, "..."]
"""a table of biases, or two factors of a table"""


def initial(context: int, width: int, window: int | None = None) -> Tensor:
    """Initial biases: for a `width` of 0 a table of zeros (N, N) or, with a window, (N, L); else factors (2, N, F).

    Factors are drawn from N(0, 0.1²), so that products of 128 channels have a size of about 0.1.
    """
    return torch.randn(2, context, width) * 0.1 if width else torch.zeros(context, window or context)


def over_keys(w: Absolute, positions: Positions, lags: int) -> Float[Tensor, "#B T L 1"]:
    """The biases of queries at `positions` over `lags` lags: factors (2, N, F) or a table of queries and keys."""
    if w.ndim == 3:
        return _from_factors(w[0], w[1], positions.clamp(max=w.shape[1] - 1), lags)
    return _by_lag(w[positions.clamp(max=len(w) - 1)], positions, lags)


def over_lags(w: Absolute, positions: Positions, lags: int) -> Float[Tensor, "#B T L 1"]:
    """The biases of queries at `positions` over `lags` lags: factors (2, N, F) or a table of queries and lags."""
    return over_keys(w, positions, lags) if w.ndim == 3 else w[positions.clamp(max=len(w) - 1), :lags][..., None]


def pairs(w: Absolute, T: int) -> Float[Tensor, "T T"]:
    """The biases of the first T queries and keys, from factors (2, N, F) or a table over queries and keys."""
    return w[0, :T] @ w[1, :T].mT if w.ndim == 3 else w[:T, :T]


def by_key(bias: Float[Tensor, "T L"]) -> Float[Tensor, "T T"]:
    """Biases by (query, lag) as a matrix by (query, key), 0 for keys after the query and beyond the last lag."""
    position = torch.arange(len(bias), device=bias.device)
    lag = position[:, None] - position
    has_bias = (lag >= 0) & (lag < bias.shape[1])
    return torch.where(has_bias, bias.gather(1, lag.clamp(0, bias.shape[1] - 1)), 0.0)


def standard(
    w: Float[Tensor, "L H"], gain: Float[Tensor, " H"], shift: Float[Tensor, " H"], tokens: int
) -> Float[Tensor, "1 #T L H"]:
    """Taps normalized over the lags to mean `shift` and standard deviation `gain`, the same for all `tokens` tokens."""

    def normalize_taps() -> Tensor:
        return layer_norm(w.mT, (len(w),)).mT * gain + shift

    return (
        torch.stack([normalize_taps() for _ in range(tokens)])[None]
        if _is_reference()
        else normalize_taps()[None, None]
    )


def _from_factors(u: Tensor, r: Tensor, positions: Tensor, lags: int) -> Tensor:
    """The biases u_t · r_{t-l} by lag (#B, T, L, 1), from factors (N, F) and the positions of the queries."""
    if _is_reference():
        rows = [torch.stack([_products(u[t], r[max(0, t + 1 - lags) : t + 1], lags) for t in row]) for row in positions]
        return torch.stack(rows)[..., None]
    if 2 * lags < len(r):
        return _from_factors_in_chunks(u, r, positions, lags)
    return _by_lag(u[positions] @ r.mT, positions, lags)


def _from_factors_in_chunks(u: Tensor, r: Tensor, positions: Tensor, lags: int) -> Tensor:
    """As `_from_factors` for consecutive positions, in chunks of `lags` queries, each with the keys at their lags."""
    chunk = min(positions.shape[1], lags)
    first_positions = positions[:, ::chunk, None]
    queries, keys = (first_positions + torch.arange(first, chunk, device=positions.device) for first in (0, 1 - lags))
    products = u[queries.clamp(max=len(u) - 1)] @ r[keys.clamp(0, len(r) - 1)].mT  # (#B, chunks, C, C + L - 1)
    at_lag_0 = torch.arange(chunk, device=positions.device)[:, None] + lags - 1  # the index of the query's own key
    key = at_lag_0 - torch.arange(lags, device=positions.device)
    by_lag = products.gather(3, key.expand(*products.shape[:2], -1, -1))
    return by_lag.flatten(1, 2)[:, : positions.shape[1], :, None]


def _by_lag(biases: Tensor, positions: Tensor, lags: int) -> Tensor:
    """Biases by (query, key) (#B, T, N), with the positions of the queries, as biases by lag (#B, T, L, 1)."""
    key = positions[..., None] - torch.arange(lags, device=positions.device)
    return biases.gather(2, key.clamp(0, biases.shape[2] - 1))[..., None]


def _products(u: Tensor, r: Tensor, lags: int) -> Tensor:
    """The products of u (F,) with the rows of r (M, F), last row first, padded with 0 to `lags` numbers."""
    return pad((r.flip(0) @ u), (0, lags - len(r)))


def _is_reference() -> bool:
    return backends.choice("biased_average", "blocks") == "reference"
