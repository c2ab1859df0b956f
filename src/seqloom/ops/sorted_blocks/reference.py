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
    read = range(len(blocks))[:cut]
    sorted_blocks = [_sorted(k, v, weights[i], blocks[: i if causal else None]) for i in read]
    outputs = [v.new_zeros(v.shape[1])] * len(q)
    for i, tokens in enumerate(blocks):
        for t in tokens:
            if cut is None:
                visible = [s for s in tokens if s <= t or not causal]
                keys, values = [*sorted_blocks[i][0], *k[visible]], [*sorted_blocks[i][1], *v[visible]]
            else:
                keys, values = ([x for pair in sorted_blocks for x in pair[n]] for n in (0, 1))
            scores = torch.stack(keys) @ q[t] / q.shape[1] ** 0.5
            outputs[t] = scores.softmax(0) @ torch.stack(values)
    return torch.stack(outputs)


def _sorted(k: Tensor, v: Tensor, weights: Tensor, blocks: list[list[int]]) -> tuple[list[Tensor], list[Tensor]]:
    """The keys and values of one sorted block, one for each slot of the longest block."""
    slots = len(blocks[0]) if blocks else 0
    pairs: tuple[list[Tensor], list[Tensor]] = [], []
    for slot in range(slots):
        of = [(j, tokens[slot]) for j, tokens in enumerate(blocks) if slot < len(tokens)]
        shares = weights[[j for j, _ in of]]
        tokens = [t for _, t in of]
        pairs[0].append(shares @ k[tokens])
        pairs[1].append(shares @ v[tokens])
    return pairs


def price(
    tokens: Iterable[int], T: int, block: int, dim: int, heads: int, causal: bool = True, cut: int | None = None
) -> Cost:
    """The price of tokens at these positions, over all heads; a mixture counts with the first token of its block."""
    K, count, terms, mixtures, mixed = dim // heads, 0, 0, 0, 0
    sizes = [min(block, T - first) for first in range(0, T, block)]
    slots = sizes[0] if sizes else 0
    for t in tokens:
        i, count = t // block, count + 1
        if cut is not None:
            terms += min(cut, len(sizes)) * slots
        else:
            terms += (slots if i or not causal else 0) + (t % block + 1 if causal else sizes[i])
        if t % block == 0:
            entered = i * block if causal else T if cut is None or i < cut else 0
            mixed += entered
            mixtures += slots if entered else 0
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
