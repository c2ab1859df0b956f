"""The decaying sum by chunks of C tokens: pairs of tokens inside a chunk, a matrix state from chunk to chunk.

With one decay per head for all channels of the keys, or none, `by_head`:

    y_i = Σ_{j≤i} (q_i · k_j) e^{g_{j+1} + … + g_i} v_j     over the j of i's own chunk
        + q_i e^{g_1 + … + g_i} S                            S before the chunk; positions counted from its first token
    S  ← e^{g_1 + … + g_C} S + Σ_j e^{g_{j+1} + … + g_C} k_jᵀ v_j

Every exponent is a sum of some of the g, never a difference of two sums: with g ≤ 0 nothing overflows at any length,
and a g of -1000 (or -inf) erases what is before it without a loss of precision after it.

With a decay per channel, S_t = diag(e^{g_t}) S_{t-1} + k_tᵀ v_t, `by_channel`:

    y_i = Σ_{j≤i} Σ_c q_ic k_jc e^{g_{j+1,c} + … + g_ic} v_j
        + (q_i ∘ e^{g_1 + … + g_i}) S
    S  ← diag(e^{g_1 + … + g_C}) S + Σ_j (k_j ∘ e^{g_{j+1} + … + g_C})ᵀ v_j

The C² exponentials of the pairs in a chunk then differ by channel, so they are stored, C K numbers per token. Nothing
is divided by a cumulated decay, which would underflow float32 after 44 tokens with g = -2.

Source: Sun et al., arXiv:2307.08621, Eq. 7, without the factored form e^{g_1+…+g_i} e^{-(g_1+…+g_j)}, which overflows;
Yang et al., Gated Linear Attention, arXiv:2312.06635, section 4, with its secondary chunks. What differs from the
latter: across chunks the state is passed on, where the paper multiplies queries and keys by two factors of the
exponential.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

CHANNEL_CHUNK = 16
"""tokens of a chunk where each channel has its decay"""


def by_head(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, C: int) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T a multiple of C."""
    q, k, v = (x.contiguous().unflatten(2, (-1, C)) for x in (q, k, v))  # (B, H, N, C, ·)
    a = q @ k.mT
    across = None
    if g is not None:
        g = g.unflatten(2, (-1, C)) if g.ndim == 3 else g[:, None, None].expand(-1, 1, C)  # (B, H, N, C) or (H, 1, C)
        sums = g[..., None].expand(*g.shape, C).tril(-1).cumsum(-2)  # (…, i, j): g_{j+1} + … + g_i; 0 where j ≥ i
        a = a * sums.exp()
        since = g.cumsum(-1).exp()  # from the start of the chunk
        until = sums[..., -1, :].exp()  # to its end
        q, k = q * since[..., None], k * until[..., None]
        across = since[..., -1, None, None]
    y = a.tril() @ v
    added = k.mT @ v  # (B, H, N, K, V)
    states_before, new_state = carry_state(added, across, state)
    return (y if states_before is None else y + q @ states_before).flatten(2, 3), new_state


def by_channel(q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor | None, C: int) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay` for g (B, H, T, K), T at least 1, C at most T."""
    T = q.shape[2]
    q, k, v, g = (pad(x, (0, 0, 0, -T % C)).unflatten(2, (-1, C)) for x in (q, k, v, g))  # (B, H, N, C, ·)
    later = torch.ones(C, C, dtype=torch.bool, device=g.device).tril(-1)[..., None]
    between = torch.where(later, g[..., :, None, :], 0.0).cumsum(-3).exp()  # (B, H, N, i, j, K): from j to i
    a = (q[..., :, None, :] * between * k[..., None, :, :]).sum(-1).tril()
    since = g.cumsum(-2).exp()  # from the start of the chunk
    until = between[..., -1, :, :]  # to its end
    states_before, new_state = carry_state((k * until).mT @ v, since[..., -1, :, None], state)
    y = a @ v
    if states_before is not None:
        y = y + (q * since) @ states_before
    return y.flatten(2, 3)[:, :, :T], new_state


def carry_state(added: Tensor, across: Tensor | None, state: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """The state before each of N chunks (B, H, N, K, V), None where it is zero, and the state after the last.

    `across`, the decay of the state over a chunk, is broadcastable to (B, H, N, K, V).
    """
    N = added.shape[2]
    if N == 1 and state is None:
        return None, added[:, :, 0]
    S = torch.zeros_like(added[:, :, 0]) if state is None else state
    decays = None if across is None else across.expand(*added.shape[:3], *across.shape[-2:]).unbind(2)
    states_before = []
    for n, added_n in enumerate(added.unbind(2)):
        states_before.append(S)
        S = added_n + (S if decays is None else decays[n] * S)
    return torch.stack(states_before, 2), S
