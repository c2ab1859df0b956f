"""The equation as it is written, token by token, and its price, counted from it; slow.

The maximum that would stabilize exponentials is left out. The price has every mixture once, then the slots that each
token reads.
"""

from collections.abc import Iterable

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
    sorted_blocks = [_sorted(k, v, weights[i], blocks[: i if causal else None]) for i in read_blocks]
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


def _sorted(k: Tensor, v: Tensor, weights: Tensor, blocks: list[list[int]]) -> tuple[list[Tensor], list[Tensor]]:
    """The keys and values of one sorted block, one for each slot of the longest block."""
    slots = len(blocks[0]) if blocks else 0
    keys, values = [], []
    for slot in range(slots):
        with_slot = [j for j, block in enumerate(blocks) if slot < len(block)]
        tokens = [blocks[j][slot] for j in with_slot]
        keys.append(weights[with_slot] @ k[tokens])
        values.append(weights[with_slot] @ v[tokens])
    return keys, values


def price(
    tokens: Iterable[int], T: int, block: int, dim: int, heads: int, causal: bool = True, cut: int | None = None
) -> Cost:
    """The price of tokens at these positions, over all heads; a mixture counts with the first token of its block."""
    K, count = dim // heads, 0
    terms = 0  # slots that are read, over all queries
    mixtures, mixed = 0, 0  # slots of sorted blocks, and the tokens that they are mixtures of
    sizes = [min(block, T - first) for first in range(0, T, block)]
    slots = sizes[0] if sizes else 0
    for t in tokens:
        i, count = t // block, count + 1
        if cut is not None:
            terms += min(cut, len(sizes)) * slots
        else:
            terms += (slots if i or not causal else 0) + (t % block + 1 if causal else sizes[i])
        if t % block == 0:
            whole_text = T if cut is None or i < cut else 0
            sources = i * block if causal else whole_text
            mixed += sources
            mixtures += slots if sources else 0
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
