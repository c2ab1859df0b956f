"""The systems as a sum over lags with their kernel, by the FFT, plus the contribution of the initial state.

    y_t = Σ_l K_l u_{t-l} + 2 Re Σ_n w_n λ̄_n^{t+1} h_{0,n}

The state after the piece is computed as in `blocks`, with longer blocks, since no sums inside a block are needed.
"""

import torch
from torch import Tensor

from seqloom.ops.lag_sum import lags
from seqloom.ops.state_space.diagonal_states import blocks
from seqloom.ops.state_space.diagonal_states.powers import double_real_product, kernel, powers, up_to

BLOCK = 256
"""tokens of a block for the computation of the state"""


def respond(u: Tensor, rates: Tensor, weights: Tensor, state: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """See `reference.respond`."""
    T = u.shape[1]
    M = min(BLOCK, T)
    weighted_state = (weights * torch.exp(rates) * state).transpose(0, 1)[:, None]  # (D, 1, B, N)
    at_block_starts = powers(rates, -(-T // M), M).mT[..., None, :] * weighted_state
    from_state = double_real_product(at_block_starts.flatten(1, 2), powers(rates, M)).unflatten(
        1, at_block_starts.shape[1:3]
    )
    y = filter_sequence(u, rates, weights) + blocks.join_blocks(from_state, T)
    block_powers = up_to(rates, M)
    block_states = blocks.states_before(u, block_powers, state)
    return y, blocks.state_after(u, rates, block_powers, block_states, lengths)


def filter_sequence(u: Tensor, rates: Tensor, weights: Tensor) -> Tensor:
    """See `seqloom.ops.state_space.diagonal_states.filter_sequence`."""
    return lags(u, kernel(rates, weights, u.shape[1]))
