"""The systems as a sum over lags with their kernel, by the FFT, plus the contribution of the initial state.

    y_t = Σ_l K_l u_{t-l} + 2 Re Σ_n w_n λ̄_n^{t+1} h_{0,n}

The state after the piece is computed as in `blocks`, with longer blocks, since no sums inside a block are needed.
"""

import torch
from torch import Tensor

from seqloom.ops.diagonal_states import blocks
from seqloom.ops.diagonal_states.powers import doubled, kernel, powers, up_to
from seqloom.ops.lag_sum import lags

BLOCK = 256
"""tokens of a block for the computation of the state"""


def respond(u: Tensor, rates: Tensor, weights: Tensor, state: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """See `reference.respond`."""
    T = u.shape[1]
    M = min(BLOCK, T)
    left = (weights * torch.exp(rates) * state).transpose(0, 1)[:, None]  # (D, 1, B, N)
    far = powers(rates, -(-T // M), M).mT[..., None, :] * left
    past = doubled(far.flatten(1, 2), powers(rates, M)).unflatten(1, far.shape[1:3])
    y = filtered(u, rates, weights) + blocks.joined(past, T)
    long = up_to(rates, M)
    return y, blocks.after(u, rates, long, blocks.entering(u, long, state), lengths)


def filtered(u: Tensor, rates: Tensor, weights: Tensor) -> Tensor:
    """See `seqloom.ops.diagonal_states.filtered`."""
    return lags(u, kernel(rates, weights, u.shape[1]))
