"""The delta rule by chunks of C tokens: a triangular system inside each chunk, a matrix from chunk to chunk.

G are the sums of g within a chunk, S is the state before it, and U_i = erase_i S_{i-1} is what token i erases:

    M_ij = Σ_c erase_i[c] write_j[c] e^{G_{i-1}[c] - G_j[c]}  for j < i,   N_ij the same with k_j for write_j
    (I + M) U = N v + (erase ∘ e^{G_{i-1}}) S
    y = A v - B U + (q ∘ e^{G_i}) S          A_ij = Σ_c q_i[c] k_j[c] e^{G_i[c] - G_j[c]} for j ≤ i, B with write_j
    S ← e^{G_C} S + (k ∘ e^{G_C - G_j})ᵀ v - (write ∘ e^{G_C - G_j})ᵀ U

Where write is k, the unknown is W = v - U: (I + M) W = v - (erase ∘ e^{G_{i-1}}) S,  y = A W + …,  S ← … + kᵀ W. U is
linear in S, so the system is solved for the constant and the linear part of all chunks at once, and only K × K matrices
are applied from chunk to chunk.

Every exponent is a sum of some of the g, never a difference of two sums, and nothing is divided by a cumulated decay.

Source: Yang et al., arXiv:2406.06484, section 3, and arXiv:2412.06464, section 3.3, for one decay per head; Kimi Team,
arXiv:2510.26692, section 3, for one per channel. What differs: there k is divided by a cumulated decay.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn.functional import pad

from seqloom.ops.delta_rule.pairs import pairs

CHUNK = 64
"""tokens of a chunk, a power of 2"""


class _Chunks(NamedTuple):
    """The products and the decayed keys of chunks of C tokens."""

    products: Tensor
    """(…, X, Z, C, C): the products of q and erase (X) with k, or with write and k (Z)"""
    q: Tensor
    """q with the decay since the start of the chunk, as it reads the state before the chunk"""
    erase: Tensor
    """the same of erase"""
    written: list[Tensor]
    """k, or write and k, with the decay until the end of the chunk"""
    across: Tensor | None
    """the decay of the state over the chunk, broadcastable to (…, K, V)"""


def delta(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    erase: Tensor,
    write: Tensor | None,
    g: Tensor | None,
    state: Tensor | None,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_rule`; shapes as in `delta` there, T at least 1."""
    T = q.shape[2]
    while chunk >= 2 * T:
        chunk //= 2
    q, k, v, erase = (_cut(x, chunk) for x in (q, k, v, erase))  # (B, H, N, C, ·)
    written = [k] if write is None else [_cut(write, chunk), k]
    chunks = _chunks(q, erase, written, None if g is None else _cut(g, chunk))
    q_products, erase_products = chunks.products.unbind(-4)  # (B, H, N, Z, C, C)
    K, V = q.shape[-1], v.shape[-1]
    M = erase_products[..., 0, :, :]
    Nv = v if write is None else erase_products[..., 1, :, :] @ v
    # W, or U, for S = 0 (V columns), and its change with S (K columns)
    solved = solve_triangular(M, torch.cat([Nv, chunks.erase], -1), upper=False, unitriangular=True)
    y, y_per_state = (q_products[..., 0, :, :] @ solved).split((V, K), -1)
    added, removed = (chunks.written[0].mT @ solved).split((V, K), -1)  # (B, H, N, K, V) and (…, K, K)
    if write is not None:
        y = q_products[..., 1, :, :] @ v - y
        added = chunks.written[1].mT @ v - added
    states_before, new_state = _carry_state(added, removed, chunks.across, state)
    return (y + (chunks.q - y_per_state) @ states_before).flatten(2, 3)[:, :, :T], new_state


def _cut(x: Tensor, C: int) -> Tensor:
    """(B, H, T, ·) or (B, H, T) in chunks of C tokens; the last is padded with zeros."""
    padding = -x.shape[2] % C
    x = pad(x, (0, 0, 0, padding) if x.ndim == 4 else (0, padding)) if padding else x
    return x.unflatten(2, (-1, C))


def _chunks(q: Tensor, erase: Tensor, written: list[Tensor], g: Tensor | None) -> _Chunks:
    """The products and decayed keys under no decay (g None), one per head (B, H, N, C) or one per channel (…, C, K)."""
    if g is not None and g.ndim == 5:
        by_pairs = pairs(q, [erase], written, g)
        until = by_pairs.until.exp()
        across = by_pairs.since[..., -1, :, None].exp()
        return _Chunks(
            by_pairs.products,
            q * by_pairs.since.exp(),
            erase * by_pairs.before.exp(),
            [z * until for z in written],
            across,
        )
    readers = torch.stack([q, erase], -3)[..., None, :, :]  # (B, H, N, X, 1, C, K)
    products = readers @ torch.stack(written, -3)[..., None, :, :, :].mT
    q_products, erase_products = products.unbind(-4)
    if g is None:
        return _Chunks(torch.stack([q_products.tril(), erase_products.tril(-1)], -4), q, erase, written, None)
    sums = g[..., None].expand(*g.shape, g.shape[-1]).tril(-1).cumsum(-2)  # (…, i, j): g_{j+1} + … + g_i; 0 for j ≥ i
    decay = sums.exp().tril()
    decay_before = pad(decay[..., :-1, :], (0, 0, 1, 0))  # up to the token before i
    products = products * torch.stack([decay, decay_before], -3)[..., None, :, :]
    since, until = g.cumsum(-1), sums[..., -1, :]
    before = pad(since[..., :-1], (1, 0))
    decay_until = until.exp()[..., None]
    return _Chunks(
        products,
        q * since.exp()[..., None],
        erase * before.exp()[..., None],
        [z * decay_until for z in written],
        since[..., -1, None, None].exp(),
    )


def _carry_state(added: Tensor, removed: Tensor, across: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """S_{n+1} = across_n S_n - removed_n S_n + added_n: the state before each of N chunks, and after the last."""
    S = torch.zeros_like(added[:, :, 0]) if state is None else state
    states_before = []
    decays = [None] * added.shape[2] if across is None else across.unbind(2)
    for added_n, removed_n, decay in zip(added.unbind(2), removed.unbind(2), decays, strict=True):
        states_before.append(S)
        S = (S if decay is None else decay * S) - removed_n @ S + added_n
    return torch.stack(states_before, 2), S
