"""`run_joint` in log2 T passes, each of which doubles the tokens that a position has summed.

    h_t ← h_t + Ā^n h_{t-n}        n = 1, 2, 4, …

No tensor is larger than (B, T, N), for any number of channels, and outputs do not depend on later inputs even in the
last bit. The powers are squared from pass to pass, in float64: Ā is near I, and the decay of a state is Ā - I, of which
a rounding error of Ā in float32 would be a large part.

Source: Hillis and Steele, Data Parallel Algorithms, 1986.
"""

import torch
from torch import Tensor

from seqloom.ops.state_space.discretise import DENSE
from seqloom.ops.state_space.reference import System


def run_joint(
    u: Tensor, system: System, method: str, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """See `reference.run_joint`."""
    A, B, C, step = system()
    eye = torch.eye(len(A), dtype=torch.float64, device=A.device)
    power, factor = DENSE[method](A.double(), eye, step.double())  # B̄ is factor · B
    x = u.new_zeros(len(u), len(A)) if state is None else state
    h = torch.cat([x[:, None], u @ B.mT @ factor.to(u.dtype).mT], 1)
    n = 1
    while n < h.shape[1]:
        h = torch.cat([h[:, :n], h[:, n:] + h[:, :-n] @ power.to(u.dtype).mT], 1)
        n, power = 2 * n, power @ power
    y = h[:, 1:] @ C.mT
    if state is None:
        return y, None
    new_state = h[:, -1].clone() if lengths is None else h[torch.arange(len(h), device=h.device), lengths]
    return y, new_state
