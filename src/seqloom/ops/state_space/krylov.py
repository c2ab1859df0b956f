"""Kernels C Ā^l B̄ of dense systems, and the state after a sequence, from the powers Ā, Ā², Ā⁴, ….

    l = m j + i:   C Ā^l B̄ = (C Ā^{mj}) (Ā^i B̄)      m about √T, a power of 2

Rows C Ā^{mj} and columns Ā^i B̄ are computed by doubling, so T states are never in memory at once. Powers are squared
in float64, for the reason given in `scan`. Source: the doubling is from Gu et al., arXiv:2110.13985, appendix C; the
split of l into rows and columns is ours.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.lag_sum import lags
from seqloom.ops.state_space.discretise import DENSE
from seqloom.ops.state_space.reference import System


def single(
    u: Tensor, system: System, method: str, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """See `reference.single`."""
    A, B, C, step = system()
    T, M = u.shape[1], C.shape[1]
    A_bar, B_bar = DENSE[method](A.double(), B.double(), step.double())
    squares = [power.to(u.dtype) for power in powers(A_bar, T)]
    A_bar, B_bar = squares[0], B_bar.to(u.dtype)
    taps = kernel(squares, B_bar[..., None], C, T)  # (D, M, 1, T)
    y = lags(u.repeat_interleave(M, 2), taps.flatten(0, 2).mT).unflatten(2, (-1, M))
    if state is None:
        return y, None
    y = y + kernel(squares, A_bar @ state.permute(1, 2, 0), C, T).permute(2, 3, 0, 1)
    return y, final(squares, B_bar, u, state, lengths)


def powers(A: Tensor, T: int) -> list[Tensor]:
    """A (…, N, N) to the powers 1, 2, 4, … up to T."""
    squares = [A]
    while 2 << (len(squares) - 1) <= T:
        squares.append(squares[-1] @ squares[-1])
    return squares


def kernel(squares: list[Tensor], right: Tensor, left: Tensor, T: int) -> Tensor:
    """left Ā^l right for l < T, from right (D, N, R), left (D, M, N) and `powers` of Ā: (D, M, R, T)."""
    M, R, split = left.shape[1], right.shape[2], _split(T)
    m = 1 << split
    J = -(-T // m)
    for power in squares[:split]:
        right = torch.cat([right, power @ right], 2)
    for power in squares[split:]:
        if left.shape[1] < J * M:
            left = torch.cat([left, left @ power], 1)
    products = left[:, : J * M] @ right[:, :, : m * R]
    return products.view(len(products), J, M, m, R).permute(0, 2, 4, 1, 3).flatten(3)[..., :T]


def final(squares: list[Tensor], B: Tensor, u: Tensor, x: Tensor, lengths: Tensor | None) -> Tensor:
    """Ā^n x + Σ_{j<n} Ā^{n-1-j} B u_j for n = `lengths` (B,), or T: (B, D, N).

    x is (B, D, N), B (D, N), u (B, T, D), and `squares` are the `powers` of Ā.
    """
    T, split = u.shape[1], _split(u.shape[1])
    if lengths is None:
        lengths = torch.full((len(u),), T, device=u.device)
    m = 1 << split
    columns = B[..., None]
    for power in squares[:split]:
        columns = torch.cat([columns, power @ columns], 2)
    index = torch.arange(T, device=u.device) - (T - lengths)[:, None]  # aligned on the right: all end at position T-1
    aligned = torch.where((index >= 0)[..., None], u.gather(1, index.clamp(min=0)[..., None].expand_as(u)), 0.0)
    blocks = pad(aligned, (0, 0, -T % m, 0)).unflatten(1, (-1, m)).permute(3, 0, 1, 2)  # (D, B, J, m)
    sums = blocks.flatten(1, 2) @ columns.flip(2).mT  # the state that each block would give from a zero state
    sums = sums.unflatten(1, blocks.shape[1:3])
    for power in squares[split:]:
        if sums.shape[2] > 1:
            sums = pad(sums, (0, 0, sums.shape[2] % 2, 0))
            sums = sums[:, :, 1::2] + sums[:, :, ::2] @ power.mT[:, None]
    from_x = x.transpose(0, 1)
    for k, power in enumerate(squares):
        from_x = torch.where(((lengths >> k) & 1).bool()[:, None], from_x @ power.mT, from_x)
    new_state = (from_x + sums[:, :, 0]).transpose(0, 1)
    return torch.where((lengths > 0)[:, None, None], new_state, x)


def _split(T: int) -> int:
    """The logarithm of m, the smallest power of 2 whose square is at least T."""
    return (max(T - 1, 0).bit_length() + 1) // 2
