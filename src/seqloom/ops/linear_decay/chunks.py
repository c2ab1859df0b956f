"""The decaying sum by chunks of C tokens: pairs of tokens inside a chunk, a matrix state from chunk to chunk.

    y_i = Σ_{j≤i} (q_i · k_j) e^{g_{j+1} + … + g_i} v_j     over the j of i's own chunk
        + q_i e^{g_1 + … + g_i} S                            S before the chunk; positions counted from its first token
    S  ← e^{g_1 + … + g_C} S + Σ_j e^{g_{j+1} + … + g_C} k_jᵀ v_j

Every exponent is a sum of some of the g, never a difference of two sums: with g ≤ 0 nothing overflows at any length,
and a g of -1000 (or -inf) erases what is before it without a loss of precision after it.

Source: Sun et al., arXiv:2307.08621, Eq. 7, without the factored form e^{g_1+…+g_i} e^{-(g_1+…+g_j)}, which overflows.
"""

import torch
from torch import Tensor


def equal(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, C: int) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T a multiple of C."""
    q, k, v = (x.contiguous().unflatten(2, (-1, C)) for x in (q, k, v))  # (B, H, N, C, ·)
    a = q @ k.mT
    across = None
    if g is not None:
        g = g.unflatten(2, (-1, C)) if g.ndim == 3 else g[:, None, None].expand(-1, 1, C)  # (B, H, N, C) or (H, 1, C)
        between = g[..., None].expand(*g.shape, C).tril(-1).cumsum(-2)  # (…, i, j): from j to i; 0 where j ≥ i
        a = a * between.exp()
        since = g.cumsum(-1).exp()  # from the chunk's beginning
        q, k, across = q * since[..., None], k * between[..., -1, :].exp()[..., None], since[..., -1]
    y = a.tril() @ v
    added = k.mT @ v  # (B, H, N, K, V)
    before, state = carried(added, None if across is None else across[..., None, None], state)
    return (y if before is None else y + q @ before).flatten(2, 3), state


def carried(added: Tensor, across: Tensor | None, state: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """The state before each of N chunks (B, H, N, K, V), None where it is zero, and the state after the last.

    `across`, the decay of the state over a chunk, is broadcastable to (B, H, N, K, V).
    """
    N = added.shape[2]
    if N == 1 and state is None:
        return None, added[:, :, 0]
    S = torch.zeros_like(added[:, :, 0]) if state is None else state
    fading = None if across is None else across.expand(*added.shape[:3], *across.shape[-2:]).unbind(2)
    before = []
    for n, new in enumerate(added.unbind(2)):
        before.append(S)
        S = new + (S if fading is None else fading[n] * S)
    return torch.stack(before, 2), S
