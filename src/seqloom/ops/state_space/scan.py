"""`joint` in log2 T passes: each doubles how many tokens a position has read.

    h_t ← h_t + Ā^n h_{t-n}        n = 1, 2, 4, …

Nothing larger than (B, T, N) is made, whatever the channels, and no output depends on a later input, even in the last
bit. Source: Hillis and Steele, Data Parallel Algorithms, 1986; the powers are squared from pass to pass, in float64:
Ā is near I, and in float32 half an eps of it is a far larger part of Ā - I, which is how fast a state fades.
"""

import torch
from torch import Tensor

from seqloom.ops.state_space.discretise import DENSE
from seqloom.ops.state_space.reference import System


def joint(
    u: Tensor, system: System, method: str, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """See `reference.joint`."""
    A, B, C, step = system()
    eye = torch.eye(len(A), dtype=torch.float64, device=A.device)
    power, through = DENSE[method](A.double(), eye, step.double())
    x = u.new_zeros(len(u), len(A)) if state is None else state
    h = torch.cat([x[:, None], u @ B.mT @ through.to(u.dtype).mT], 1)
    n = 1
    while n < h.shape[1]:
        h = torch.cat([h[:, :n], h[:, n:] + h[:, :-n] @ power.to(u.dtype).mT], 1)
        n, power = 2 * n, power @ power
    y = h[:, 1:] @ C.mT
    if state is None:
        return y, None
    after = h[:, -1] if lengths is None else h[torch.arange(len(h), device=h.device), lengths]
    return y, after
