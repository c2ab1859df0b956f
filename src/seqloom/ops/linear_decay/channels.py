"""The decaying sum with a decay per channel of the keys, S_t = diag(e^{g_t}) S_{t-1} + k_tᵀ v_t, by chunks of C tokens.

    y_i = Σ_{j≤i} Σ_c q_ic k_jc e^{g_{j+1,c} + … + g_ic} v_j     over the j of i's own chunk
        + (q_i ∘ e^{g_1 + … + g_i}) S                            S before the chunk; positions from its first token
    S  ← diag(e^{g_1 + … + g_C}) S + Σ_j (k_j ∘ e^{g_{j+1} + … + g_C})ᵀ v_j

The C² exponentials of the pairs in a chunk differ by channel, so they are stored, C K numbers per token. As in `chunks`
every exponent is a sum of some of the g. Nothing is divided by a cumulated decay, which would underflow float32 after
44 tokens with g = -2, and no exponent is a difference of two sums, which would be NaN for g = -inf.

Source: Yang et al., Gated Linear Attention, arXiv:2312.06635, section 4, with its secondary chunks. What differs:
across chunks the state is passed on, where the paper multiplies queries and keys by two factors of the exponential.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.linear_decay.chunks import carried

CHUNK = 16
"""tokens of a chunk"""


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor | None, C: int) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay` for g (B, H, T, K), T at least 1, C at most T."""
    T = q.shape[2]
    q, k, v, g = (pad(x, (0, 0, 0, -T % C)).unflatten(2, (-1, C)) for x in (q, k, v, g))  # (B, H, N, C, ·)
    later = torch.ones(C, C, dtype=torch.bool, device=g.device).tril(-1)[..., None]
    between = torch.where(later, g[..., :, None, :], 0.0).cumsum(-3).exp()  # (B, H, N, i, j, K): from j to i
    a = (q[..., :, None, :] * between * k[..., None, :, :]).sum(-1).tril()
    since = g.cumsum(-2).exp()  # from the chunk's beginning
    until = between[..., -1, :, :]  # to its end
    before, after = carried((k * until).mT @ v, since[..., -1, :, None], state)
    y = a @ v
    if before is not None:
        y = y + (q * since) @ before
    return y.flatten(2, 3)[:, :, :T], after
