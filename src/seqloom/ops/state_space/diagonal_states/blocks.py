"""The systems in blocks of M tokens: a sum over lags inside a block, and states from block to block.

    y = U X + Re(S Q),   X_{jm} = K_{m-j},  Q_m = 2 w λ̄^{m+1}      U (…, M) a block's inputs, S (…, N) the state before
    S' = λ̄^M S + U V,    V_j = λ̄^{M-1-j}

Each channel has its products of real matrices, M + 4N multiplications per token, and they are exactly causal. The axes
are (channel, block, row, …), so that a block of all rows is one slice.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.past import ring
from seqloom.ops.state_space.diagonal_states.powers import apart, facing, times, up_to

BLOCK = 64
"""tokens of a block"""


def respond(u: Tensor, rates: Tensor, weights: Tensor, state: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """See `reference.respond`."""
    powers = up_to(rates, min(BLOCK, u.shape[1]))
    block_states = states_before(u, powers, state)
    return _outputs(u, powers, weights, block_states), state_after(u, rates, powers, block_states, lengths)


def filter_sequence(u: Tensor, rates: Tensor, weights: Tensor) -> Tensor:
    """See `seqloom.ops.state_space.diagonal_states.filter_sequence`."""
    M = min(BLOCK, u.shape[1])
    powers = up_to(rates, M)
    state = torch.zeros(len(u), *weights.shape, dtype=weights.dtype, device=u.device)
    last = (u.shape[1] - 1) // M * M  # the state after the last block is not needed
    return _outputs(u, powers, weights, states_before(u[:, :last], powers, state))


def states_before(u: Tensor, powers: Tensor, state: Tensor) -> Tensor:
    """The states before each of A blocks, and after the last: (D, A+1, B, N) from u (B, T, D), state (B, D, N).

    `powers` (…, N, M+1) are λ̄^0 … λ̄^M, where M is the number of tokens of a block.
    """
    h = state.transpose(0, 1)
    states = [h]
    if u.shape[1]:
        block_decay = per_row(powers[..., -1])
        for added in _added_to_state(cut(u, powers.shape[-1] - 1), powers[..., :-1]).unbind(1):
            h = block_decay * h + added
            states.append(h)
    return torch.stack(states, 1)


def state_after(u: Tensor, rates: Tensor, powers: Tensor, block_states: Tensor, lengths: Tensor | None) -> Tensor:
    """The state (B, D, N) after `lengths` (B,) tokens of each row, or after all, from the states before each block."""
    M = powers.shape[-1] - 1
    if lengths is None:
        full_blocks, remainder = divmod(u.shape[1], M)
        h = block_states[:, full_blocks]
        if not remainder:
            return h.transpose(0, 1).clone()  # a view would keep the states of all blocks in memory
        tail = u[:, full_blocks * M :].permute(2, 0, 1)
        h = per_row(powers[..., remainder]) * h + _added_to_state(tail, powers[..., :remainder])
        return h.transpose(0, 1)
    blocks = lengths // M  # full ones of each row
    h = block_states[:, blocks, torch.arange(len(u), device=u.device)]
    index = lengths[:, None] - M + torch.arange(M, device=u.device)  # the last M tokens of each row
    tail = torch.where((index >= blocks[:, None] * M)[:, :, None], ring.pick(u, index.clamp(min=0)), 0.0)
    decay = torch.exp(times(per_row(rates), (lengths - blocks * M)[:, None]))
    return (decay * h + _added_to_state(tail.permute(2, 0, 1), powers[..., :-1])).transpose(0, 1)


def cut(u: Tensor, M: int) -> Tensor:
    """(B, T, D) → (D, A, B, M), with zeros after the last token."""
    B, T, D = u.shape
    A = -(-T // M)
    return pad(u, (0, 0, 0, A * M - T)).view(B, A, M, D).permute(3, 1, 0, 2).contiguous()


def join_blocks(y: Tensor, T: int) -> Tensor:
    """(D, A, B, M) → (B, T, D)."""
    D, A, B, M = y.shape
    return y.permute(2, 1, 3, 0).reshape(B, A * M, D)[:, :T]


def per_row(rates: Tensor) -> Tensor:
    """Rates (D, N) as (D, 1, N), and (N,) unchanged, so that both broadcast with (D, B, N)."""
    return rates[:, None] if rates.ndim == 2 else rates


def _outputs(u: Tensor, powers: Tensor, weights: Tensor, block_states: Tensor) -> Tensor:
    """The outputs (B, T, D), from the states before each block; a state after the last block is ignored."""
    M = powers.shape[-1] - 1
    block_inputs = cut(u, M)
    D, A, B, _ = block_inputs.shape
    weighted_powers = 2 * weights[..., None] * powers
    from_inputs = block_inputs.flatten(1, 2) @ toeplitz(weighted_powers[..., :M].real.sum(1))
    states = facing(block_states[:, :A].flatten(1, 2))
    y = torch.baddbmm(from_inputs, states, apart(weighted_powers[..., 1:]))
    return join_blocks(y.view(D, A, B, M), u.shape[1])


def _added_to_state(block_inputs: Tensor, powers: Tensor) -> Tensor:
    """What a block's inputs (D, …, m) add to the state after it: (D, …, N) complex, given λ̄^0 … λ̄^{m-1}."""
    factors = apart(powers.flip(-1)).mT
    added = (block_inputs.flatten(1, -2) @ factors).unflatten(1, block_inputs.shape[1:-1])
    return torch.complex(*added.chunk(2, -1))


def toeplitz(K: Tensor) -> Tensor:
    """(D, M) → (D, M, M), K_{m-j} in row j and column m, 0 for m < j."""
    M = K.shape[1]
    return pad(K, (M - 1, 0)).unfold(1, M, 1).flip(1)
