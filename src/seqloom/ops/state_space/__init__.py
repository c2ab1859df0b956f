"""Linear state-space models x' = A x + B u, y = C x: initial A and B, discretization, and outputs over a sequence.

    x_t = Ā x_{t-1} + B̄ u_t,   y_t = C x_t                  x_{-1} = 0;  Ā, B̄ from A, B and a step Δ: see `discretise`

    joint      one system over all channels: A (N, N), B (N, D), C (D, N), one step
    single     a copy of one system for each channel, each with its step and M outputs: A (N, N), B (N,), C (D, M, N)
    low_rank   as `single` with M = 1 and A = Λ - P P*, bilinear; of pairs of conjugates one half is given

The direct term D u is computed by the caller. Source: seed 004, Eq. 24-31; Gu et al., arXiv:2110.13985 (`single`)
and arXiv:2111.00396 (`low_rank`, with P P* for P Q*).
"""

from seqloom.ops.state_space.reading import joint, low_rank, outputs, single

__all__ = ["joint", "low_rank", "outputs", "single"]
