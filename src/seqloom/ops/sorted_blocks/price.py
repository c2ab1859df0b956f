"""The price of attention to sorted blocks: every mixture once, then the slots that each token reads."""

from collections.abc import Iterable

from seqloom.core.cost import Cost


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
