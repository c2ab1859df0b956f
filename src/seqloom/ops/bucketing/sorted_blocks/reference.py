"""The equation as it is written, token by token, which is slow, and its price.

The maximum that would stabilize exponentials is left out. The price has every mixture once, then the slots that each
token reads.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost


def attend(
    q: Tensor, k: Tensor, v: Tensor, weights: Tensor, block: int, causal: bool, cut: int | None, lengths: Tensor | None
) -> Tensor:
    """See `attend` of the package."""
    T = q.shape[2]
    counts = [T] * len(q) if lengths is None else lengths.tolist()
    heads = [
        _head(q[b, h], k[b, h], v[b, h], weights[b, h], block, causal, cut, counts[b])
        for b in range(len(q))
        for h in range(q.shape[1])
    ]
    return torch.stack(heads).unflatten(0, q.shape[:2])


def _head(
    q: Tensor, k: Tensor, v: Tensor, weights: Tensor, block: int, causal: bool, cut: int | None, T: int
) -> Tensor:
    """One head of one row of T tokens: (L, K), (L, K), (L, V) → (L, V), 0 after T."""
    blocks = [list(range(first, min(first + block, T))) for first in range(0, T, block)]
    read_blocks = range(len(blocks))[:cut]
    sorted_blocks = [_sort_block(k, v, weights[i], blocks[: i if causal else None]) for i in read_blocks]
    outputs = [v.new_zeros(v.shape[1])] * len(q)
    for i, tokens in enumerate(blocks):
        for t in tokens:
            if cut is None:
                visible = [s for s in tokens if s <= t or not causal]
                keys, values = [*sorted_blocks[i][0], *k[visible]], [*sorted_blocks[i][1], *v[visible]]
            else:
                keys = [key for block_keys, _ in sorted_blocks for key in block_keys]
                values = [value for _, block_values in sorted_blocks for value in block_values]
            scores = torch.stack(keys) @ q[t] / q.shape[1] ** 0.5
            outputs[t] = scores.softmax(0) @ torch.stack(values)
    return torch.stack(outputs)


def _sort_block(k: Tensor, v: Tensor, weights: Tensor, blocks: list[list[int]]) -> tuple[list[Tensor], list[Tensor]]:
    """The keys and values of one sorted block, one for each slot of the longest block."""
    slots = len(blocks[0]) if blocks else 0
    keys, values = [], []
    for slot in range(slots):
        with_slot = [j for j, block in enumerate(blocks) if slot < len(block)]
        tokens = [blocks[j][slot] for j in with_slot]
        keys.append(weights[with_slot] @ k[tokens])
        values.append(weights[with_slot] @ v[tokens])
    return keys, values


def price(tokens: range, T: int, block: int, dim: int, heads: int, causal: bool = True, cut: int | None = None) -> Cost:
    """The price of tokens at consecutive positions, over all heads; a mixture counts with its block's first token."""
    K, count = dim // heads, len(tokens)
    slots, N = min(block, T), -(-T // block)
    terms = _direct_terms(tokens, T, block, causal)  # slots that are read, over all queries
    if cut is not None:
        terms = count * min(cut, N) * slots
    elif causal:
        terms += slots * len(range(max(tokens.start, block), tokens.stop))  # the first block has no sorted one
    else:
        terms += slots * count
    first, end = (-(-t // block) for t in (tokens.start, max(tokens.start, tokens.stop)))  # blocks that begin here
    if causal:
        mixed = block * (_triangle(end - 1) - _triangle(first - 1))  # block i is a mixture of the i blocks before it
        mixtures = slots * len(range(max(first, 1), end))
    else:
        mixing = len(range(first, end if cut is None else min(end, cut)))
        mixed, mixtures = T * mixing, slots * mixing
    pairs = heads * terms
    return Cost(
        mul=2 * pairs * K + 2 * mixed * dim,
        add=pairs * (K - 1) + (pairs - heads * count) * (1 + K) + 2 * (mixed - mixtures) * dim,
        div=2 * pairs,
        exp=pairs,
        path=(
            *("multiplication", "cumulation", "multiplication", "cumulation", "division", "exponentiation"),
            *("cumulation", "division", "multiplication", "cumulation"),
        ),
    )


def _direct_terms(tokens: range, T: int, block: int, causal: bool) -> int:
    """The tokens of its own block that each of these reads: up to itself if `causal`, else all."""

    def up_to(n: int) -> int:
        if causal:
            return n // block * _triangle(block) + _triangle(n % block)
        full = (-(-T // block) - 1) * block  # the tokens before the last block
        return block * min(n, full) + (T - full) * max(0, n - full)

    return up_to(max(tokens.start, tokens.stop)) - up_to(tokens.start)


def _triangle(n: int) -> int:
    """1 + 2 + … + n."""
    return n * (n + 1) // 2
