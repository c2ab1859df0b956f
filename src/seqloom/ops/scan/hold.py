"""A diagonal state space with zero-order hold: the input is constant during the step Δ of a token.

    x' = λ ∘ x + v,   so   x_t = ā ∘ x_{t-1} + b̄ ∘ v_t,   ā = e^{λΔ},   b̄ = (ā - 1) / λ,   Δ = s e^log_step
    λ = min(Re, -10^-4) + i Im                              so that states only decay

Source: Smith et al., S5, arXiv:2208.04933, Eq. 6, and the authors' code, whose `clip_eigs` is the minimum. Under the
backend `reference` ā and b̄ are computed at each token, so that a step costs what its token costs in a sequence.
"""

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from seqloom.core.shapes import Lengths
from seqloom.ops.scan import OP, scan
from seqloom.ops.state_space.discretise import diagonal_zoh

SLOWEST = -1e-4
"""the largest real part: no state grows, and every state decays within 10,000 units of time"""


def zero_order_hold(
    v: Complex[Tensor, "B T N"],
    log_step: Float[Tensor, " N"],
    eigenvalues: Float[Tensor, "N 2"],
    state: Complex[Tensor, "B N"] | None = None,
    *,
    scale: float = 1.0,
    lengths: Lengths | None = None,
) -> tuple[Complex[Tensor, "B T N"], Complex[Tensor, "B N"]]:
    """Every x_t (B, T, N), and the state after the last token or after `lengths`; see `scan`.

    No `state` means zeros. `eigenvalues` are λ before the minimum, real and imaginary part, per unit of time.
    `scale` is s.
    """
    B, T, N = v.shape
    rows = T if OP.choose(v) == "reference" else 1
    if state is None:  # so that the first token has the price of any other
        state = v.new_zeros(B, N)
    rates, step = continuous(log_step.expand(rows, N), eigenvalues.expand(rows, N, 2), scale)
    decay, gain = diagonal_zoh(rates, step)
    return scan(decay[0] if rows == 1 else decay.expand(B, T, N), gain * v, state, lengths=lengths)


def continuous(
    log_step: Float[Tensor, "*n N"], eigenvalues: Float[Tensor, "*n N 2"], scale: float = 1.0
) -> tuple[Complex[Tensor, "*n N"], Float[Tensor, "*n N"]]:
    """λ and Δ of the equation above, from their parameters."""
    (real, imaginary), step = eigenvalues.unbind(-1), log_step.exp()
    return torch.complex(real.clamp(max=SLOWEST), imaginary), step if scale == 1 else step * scale
